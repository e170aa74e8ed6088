"""The memory agent: chunks, prompts and the turn loop. Free of torch, verl and vLLM."""
