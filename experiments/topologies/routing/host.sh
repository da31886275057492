#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A host of the ring: waits until it reaches all others, twice; then receives, or sends, and ends at the last second.
#   sh host.sh END                                 receives
#   sh host.sh END ADDRESS FROM:TO:PERIOD...       sends, at times of the simulated clock
set -e
end=$1
shift
others=
for switch in 1 2 3 4; do
  for subnet in 0 1; do
    address=10.$switch.$subnet.1
    [ $address = "$IPNUMA_IP" ] || others="$others $address"
  done
done
sleep 3
for round in first second; do
  for address in $others; do
    until ping -q -c 1 -W 1 "$address" > ping.log 2>&1; do sleep 0.2; done
  done
  echo "all others answer the $round time at $(cut -d' ' -f1 /proc/uptime) s"
  sleep 1
done
exec /usr/bin/python3 -S -E stream.py "$end" "$@"
