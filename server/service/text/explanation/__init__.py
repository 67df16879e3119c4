"""Why a translation is as it is: which words stand for which, in ranges of the client's own texts."""
