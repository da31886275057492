# SPDX-License-Identifier: Apache-2.0
# Sends ICMP echo requests and prints how long each answer took, for hosts without ping: ping.pl ADDRESS COUNT
use strict;
use warnings;
use Socket;
use Time::HiRes qw(time sleep);

my ($address, $count) = @ARGV;
socket(my $socket, PF_INET, SOCK_RAW, getprotobyname('icmp') // 1) or die "socket: $!";
my $to = pack_sockaddr_in(0, inet_aton($address));
for my $number (1 .. $count) {
    my $message = pack('CCnnn', 8, 0, 0, 77, $number) . 'ping' x 12;
    my $sum = unpack('%32n*', $message);
    $sum = ($sum & 0xffff) + ($sum >> 16) while $sum >> 16;
    substr($message, 2, 2) = pack('n', ~$sum & 0xffff);
    my $sent = time;
    send($socket, $message, 0, $to) or die "send: $!";
    while (1) {
        recv($socket, my $answer, 2048, 0) // die "recv: $!";
        my ($kind, undef, undef, $id, $got) = unpack('x20 CCnnn', $answer);
        last if $kind == 0 && $id == 77 && $got == $number;
    }
    printf "%d: %.3f us\n", $number, (time - $sent) * 1e6;
    sleep 0.01;
}
