#!/bin/sh
# Mounts the disk for the work directories of jobs with disk_mb: an instance store if the instance
# has one, else the fleet's data volume (disk_gb). Without either it makes the directory alone.
# joblane-disk.service runs it at every boot: an instance store is empty after a stop.
# A disk is formatted if nothing at all is found on it. One with partitions, or with a file system
# that is not this script's, is not touched.
set -eu

place=@WORK_DIR@
volume_bytes=$((@DISK_GB@ * 1073741824))
label=joblane-work

mkdir -p -m 0700 "$place"
! mountpoint -q "$place" || exit 0
modprobe loop || true # for disks of jobs where no disk is found here

# Instance stores first, the largest first.
disks=$(lsblk --nodeps --noheadings --bytes --raw --paths --output NAME,TYPE,RO,SIZE,MODEL |
  awk -v volume="$volume_bytes" '
    $2 != "disk" || $3 != 0 { next }
    $5 ~ /Instance\\x20Storage/ { print 0, $4, $1; next }
    $4 == volume { print 1, $4, $1 }' |
  sort -k 1,1n -k 2,2nr | awk '{ print $3 }')

for disk in $disks; do
  [ "$(lsblk --noheadings --list --output NAME "$disk" | wc -l)" -eq 1 ] || continue
  found=0
  known=$(blkid --probe --output export "$disk") || found=$?
  if [ "$found" -eq 2 ]; then
    mkfs.xfs -q -L "$label" "$disk"
  elif [ "$found" -ne 0 ] || ! echo "$known" | grep -qx "LABEL=$label"; then
    continue
  fi
  mount -t xfs -o prjquota,nosuid,nodev,noatime "$disk" "$place"
  chmod 0700 "$place"
  echo "$disk is mounted on $place"
  exit 0
done

if [ "$volume_bytes" -gt 0 ]; then
  echo "no disk for $place was found; disk_mb uses the root volume" >&2
  exit 1
fi
