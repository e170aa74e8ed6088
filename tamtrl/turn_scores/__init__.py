"""Who scores memory turns from outside the policy: an LLM judge, or a process reward model (PRM)."""
