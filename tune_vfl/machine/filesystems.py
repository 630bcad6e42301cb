"""The kind of file system that a path lies on: one of this machine, or one that other machines write too."""

from __future__ import annotations

from pathlib import Path

NETWORK = frozenset(
    {
        *("9p", "virtiofs", "vboxsf", "prl_fs", "vmhgfs", "fuse.vmhgfs-fuse"),  # a virtual machine's host
        *("nfs", "nfs4", "cifs", "smb2", "smb3", "smbfs", "afs", "ncpfs", "davfs", "fuse.sshfs", "fuse.rclone"),
        *("lustre", "gpfs", "beegfs", "ceph", "fuse.ceph", "glusterfs", "fuse.glusterfs", "gfs2", "ocfs2", "orangefs"),
        *("pvfs2", "wekafs", "fuse.s3fs"),
    }
)
"""Names that Linux gives to file systems on which a lock or a shared mapping may not reach other machines."""

_MOUNTS = Path("/proc/self/mountinfo")


def network_file_system(path: Path, mounts: Path = _MOUNTS) -> str | None:
    """Return the name of the network file system that a path lies on; None on a local one, and where it is unknown.

    Args:
        path: a file or a folder, which need not exist.
        mounts: the table of mounts, as Linux writes it.
    """
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None  # no Linux
    place, found = path.absolute().resolve(), (0, "")
    for line in lines:
        before, _, after = line.partition(" - ")
        mounted = Path(_plain(before.split(" ")[4]))
        if place.is_relative_to(mounted) and len(mounted.parts) >= found[0]:  # of two at one place the later one counts
            found = len(mounted.parts), after.split(" ")[0]
    return found[1] if found[1] in NETWORK else None


def _plain(name: str) -> str:
    for code, letter in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        name = name.replace(code, letter)
    return name
