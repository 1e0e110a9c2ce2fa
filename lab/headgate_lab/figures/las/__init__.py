"""The figures of las-2020."""
