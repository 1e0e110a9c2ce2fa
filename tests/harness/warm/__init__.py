"""What a run's processes would each do anew, done once beforehand."""
