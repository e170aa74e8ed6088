"""Baselines that learn from trajectories: SFT, STaR and Vanilla-KD, trained by verl's SFT trainer."""
