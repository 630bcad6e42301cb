"""What belongs to the machine: files, folders, the process that trains, importing torchvision, the version."""
