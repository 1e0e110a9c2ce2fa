"""What Headgate costs and what it holds, as ratios from one run."""
