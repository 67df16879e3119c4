"""The decoding engine: token ids in, token ids out; it knows neither text nor HTTP."""
