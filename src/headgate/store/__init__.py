"""The control folder: settings, plans, pins and the ledger, as plain files that people can read."""
