"""Training: glue between verl and the reader and credit functions of this package."""
