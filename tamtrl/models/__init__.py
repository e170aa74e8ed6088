"""Models made from nothing for the toy paper: backbones, tokenizers, the toy judge."""
