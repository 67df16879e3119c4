"""Requests in, futures out: which worker gets which sentence."""
