"""Models in Marian's own files: ``.npz`` weights, with vocabularies as ``.yml`` or ``.spm``."""
