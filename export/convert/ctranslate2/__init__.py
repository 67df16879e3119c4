"""CTranslate2's model directories, and the Argos packages that hold one, to checkpoints."""
