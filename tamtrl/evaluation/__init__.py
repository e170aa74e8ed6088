"""Evaluation: predict once with vLLM, score any time without a GPU."""
