"""What a result was made from: code and data digests, cards, archives of published runs, verification."""
