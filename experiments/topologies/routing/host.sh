#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A host of the ring: waits until it reaches all others, twice; then receives until second END, and may send meanwhile.
#   sh host.sh END [ADDRESS FROM:TO:PERIOD...]       at times of the simulated clock
set -e
end=$1
shift
# All hosts of the rack begin with an h, and are alone in their subnets.
others=$(awk -v own="$IPNUMA_IP" '$2 ~ /^h/ && $1 != own { print $1 }' /etc/hosts)
sleep 3
for round in first second; do
  for address in $others; do
    until ping -q -c 1 -W 1 "$address" > ping.log 2>&1; do sleep 0.2; done
  done
  echo "all others answer the $round time at $(cut -d' ' -f1 /proc/uptime) s"
  sleep 1
done
exec /usr/bin/python3 -S -E stream.py "$end" "$@"
