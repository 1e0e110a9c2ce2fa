"""`hg.doctor`: can this cluster run Headgate, and what should be changed before it does?"""
