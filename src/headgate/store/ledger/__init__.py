"""The ledger: records of batches, the files they are in, sums, and audits."""
