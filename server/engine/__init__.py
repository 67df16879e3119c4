"""Decoding engine: token ids in, token ids out; no text and no HTTP.

A sentence's way: `pool.Pool.submit` -> `scheduler.Scheduler` -> `engine.Engine.step` -> `search` ->
future.
"""
