"""What all studies of a campaign say together: the joint front, who keeps the constraints, what to deploy, and why."""
