#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The host of switch NUMBER in a ring of COUNT: OSPF for the subnet of its port 0, BGP for that of port 1, both with the
# neighbours at ports 2 (next) and 3 (previous), by BIRD or by FRR. Says what there is after each of the given seconds.
#   sh router.sh bird|frr NUMBER COUNT SECONDS...
set -e
kind=$1 own=$2 count=$3
shift 3
# Guests that do the same at the very same time take turns every 256 ns, and the run takes several times as long.
sleep "0.$((own * 2))"
next=$((own % count + 1)) previous=$(((own + count - 2) % count + 1))
ports=
for port in $IPNUMA_PORTS; do ports="$ports --port $port"; done
# shellcheck disable=SC2086
./ipnuma fibd run $ports --switch /dev/fibnic --buffer 1000000 > fibd.log 2>&1 &

if [ "$kind" = bird ]; then
  cat > bird.conf <<END
log stderr all;
router id 10.$own.0.254;
protocol device { scan time 10; }
protocol direct { ipv4; interface "sw1"; }
protocol kernel { ipv4 { import none; export where source != RTS_DEVICE; }; }
protocol ospf v2 {
  ecmp no;
  ipv4 { import all; };
  area 0 {
    interface "sw2", "sw3" { type ptp; cost 10; hello 1; dead 4; retransmit 2; };
    interface "sw0" { stub; };
  };
}
template bgp ring {
  local as 6500$own;
  graceful restart off;  # else FRR's routes stay for two minutes when it is lost
  hold time 3; keepalive time 1; connect delay time 1; connect retry time 1; error wait time 1, 2;
  ipv4 { import all; export where source ~ [ RTS_DEVICE, RTS_BGP ]; };
}
protocol bgp forth from ring { neighbor 10.100.$own.2 as 6500$next; }
protocol bgp back from ring { neighbor 10.100.$previous.1 as 6500$previous; }
END
  bird -f -c bird.conf -s /run/bird.ctl > daemons.log 2>&1 &
else
  mkdir -p /run/frr
  chown frr:frr /run/frr
  link="ip ospf network point-to-point
 ip ospf cost 10
 ip ospf hello-interval 1
 ip ospf dead-interval 4
 ip ospf retransmit-interval 3"
  echo "hostname $IPNUMA_HOST" > zebra.conf
  cat > ospfd.conf <<END
interface sw2
 $link
interface sw3
 $link
interface sw0
 ip ospf passive
router ospf
 ospf router-id 10.$own.0.254
 timers throttle spf 10 50 1000
 timers throttle lsa all 100
 timers lsa min-arrival 50
 maximum-paths 1
 network 10.$own.0.0/24 area 0
 network 10.100.0.0/16 area 0
END
  cat > bgpd.conf <<END
frr defaults datacenter
router bgp 6500$own
 bgp router-id 10.$own.0.254
 no bgp ebgp-requires-policy
 timers bgp 1 3
 neighbor 10.100.$own.2 remote-as 6500$next
 neighbor 10.100.$own.2 timers connect 1
 neighbor 10.100.$previous.1 remote-as 6500$previous
 neighbor 10.100.$previous.1 timers connect 1
 address-family ipv4 unicast
  network 10.$own.1.0/24
  maximum-paths 1
END
  for daemon in zebra ospfd bgpd; do
    /usr/lib/frr/$daemon -A 127.0.0.1 -f "$PWD/$daemon.conf" -i /run/frr/$daemon.pid -z /run/frr/zserv.api \
      --vty_socket /run/frr --log stdout > $daemon.log 2>&1 &
    while [ $daemon = zebra ] && [ ! -e /run/frr/zserv.api ]; do sleep 0.1; done
  done
fi

for second; do
  sleep "$(awk -v to="$second" '{ left = to - $1; print (left > 0 ? left : 0) }' /proc/uptime)"
  # The sixth number of the line behind the names.
  echo "at $second s the kernel has forwarded $(awk '/^Ip: [0-9]/ { print $7 }' /proc/net/snmp) packets"
done
ip route
sleep "0.$((own * 2))"
./ipnuma fibd audit --random 1000 --ask 100
