// SPDX-License-Identifier: Apache-2.0
//! UDP sockets that several threads or processes have.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::datagram::{hold_back, look, two};
use crate::support::prelude::*;

cases! { "datagram_shared";
    duplicate Accelerated "several threads receive through dups of one socket, as memcached does: each datagram goes to one"
    fork_receives Any "a forked child receives on the inherited socket"
    fork_sends Accelerated "a forked child sends from the inherited socket; the source is the same"
    fork_leaves Accelerated "a child that ends, or closes its copy of a receiver, takes nothing from its parent"
    fork_both_send Accelerated "parent and child send from one socket at once: each datagram arrives whole, once, and in its sender's order"
}

fn duplicate() -> Outcome {
    use crate::support::epoll;
    let (left, left_at, right, right_at) = two()?;
    nonblocking(right, true)?;
    let total = 400;
    let stop = eventfd(0, 0)?;
    let taken = Arc::new(AtomicU32::new(0));
    let workers: Vec<_> = (0..4)
        .map(|_| {
            let taken = Arc::clone(&taken);
            std::thread::spawn(move || {
                let mut got = Vec::new();
                let (Ok(own), Ok(set)) = (dup(right), epoll::create()) else {
                    return got;
                };
                if epoll::add(set, own, epoll::IN, 1).is_err()
                    || epoll::add(set, stop, epoll::IN, 2).is_err()
                {
                    return got;
                }
                loop {
                    let Ok(events) = epoll::wait(set, 5000) else {
                        return got;
                    };
                    while let Ok((bytes, _)) = recvfrom(own, 10, 0) {
                        got.push(u16::from_le_bytes([bytes[0], bytes[1]]));
                        taken.fetch_add(1, Ordering::AcqRel);
                    }
                    if events.is_empty() || events.iter().any(|event| event.1 == 2) {
                        return got;
                    }
                }
            })
        })
        .collect();
    for number in 0..total as u16 {
        hold_back(number.into(), &taken)?;
        sendto(left, &number.to_le_bytes(), 0, &right_at)?;
    }
    look(&left_at, &right_at);
    pause(20);
    write(stop, &1u64.to_ne_bytes())?;
    let mut all = Vec::new();
    for worker in workers {
        all.extend(
            worker
                .join()
                .map_err(|_| Failure::new("a worker panicked"))?,
        );
    }
    all.sort_unstable();
    holds!(
        all == (0..total as u16).collect::<Vec<_>>(),
        "{} of {total} datagrams were received",
        all.len()
    );
    Ok(())
}

fn fork_receives() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    sendto(left, b"before", 0, &right_at)?;
    let child = fork(|| {
        same!(recvfrom(right, 10, 0), Ok((b"before".to_vec(), left_at)));
        same!(recvfrom(right, 10, 0), Ok((b"after".to_vec(), left_at)));
        sendto(right, b"answer", 0, &left_at)?;
        Ok(())
    })?;
    close(right)?;
    sendto(left, b"after", 0, &right_at)?;
    same!(recvfrom(left, 10, 0), Ok((b"answer".to_vec(), right_at)));
    child.join()?;
    look(&left_at, &right_at);
    Ok(())
}

fn fork_sends() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let child = fork(|| {
        sendto(left, b"child", 0, &right_at)?;
        Ok(())
    })?;
    same!(recvfrom(right, 10, 0), Ok((b"child".to_vec(), left_at)));
    child.join()?;
    sendto(left, b"parent", 0, &right_at)?;
    same!(recvfrom(right, 10, 0), Ok((b"parent".to_vec(), left_at)));
    look(&left_at, &right_at);
    Ok(())
}

fn fork_leaves() -> Outcome {
    let (left, left_at, right, right_at) = two()?;
    let arrives = |text: &[u8]| -> Outcome {
        sendto(left, text, 0, &right_at)?;
        same!(recvfrom(right, 10, 0), Ok((text.to_vec(), left_at)));
        Ok(())
    };
    for _ in 0..3 {
        arrives(b"before")?;
        look(&left_at, &right_at);
        fork(|| Ok(()))?.join()?;
        arrives(b"ended")?;
        fork(|| Ok(close(right)?))?.join()?;
        arrives(b"closed")?;
        fork(|| Ok(close(left)?))?.join()?;
        arrives(b"sender")?;
    }
    look(&left_at, &right_at);
    Ok(())
}

fn fork_both_send() -> Outcome {
    const ROUNDS: u16 = 100;
    const EACH: u16 = 20;
    let (left, left_at, right, right_at) = two()?;
    let (go_out, go) = pipe()?;
    let datagram = |who: u8, number: u16| {
        let [low, high] = number.to_le_bytes();
        [low, high]
            .into_iter()
            .chain([who; 198])
            .collect::<Vec<u8>>()
    };
    sendto(left, b"before", 0, &right_at)?;
    gets!(recv(right, 10, 0), b"before");
    look(&left_at, &right_at);
    let child = fork(|| {
        for round in 0..ROUNDS {
            gets!(read(go_out, 1), b"g");
            for number in 0..EACH {
                sendto(left, &datagram(b'c', round * EACH + number), 0, &right_at)?;
            }
        }
        Ok(())
    })?;
    let (mut ours, mut childs) = (0, 0);
    for round in 0..ROUNDS {
        write(go, b"g")?;
        for number in 0..EACH {
            sendto(left, &datagram(b'p', round * EACH + number), 0, &right_at)?;
        }
        for _ in 0..2 * EACH {
            let (bytes, from) = recvfrom(right, 300, 0)?;
            same!(from, left_at);
            let who = bytes[bytes.len() - 1];
            let next = if who == b'p' { &mut ours } else { &mut childs };
            same!(bytes, datagram(who, *next));
            *next += 1;
        }
    }
    same!((ours, childs), (ROUNDS * EACH, ROUNDS * EACH));
    child.join()?;
    look(&left_at, &right_at);
    Ok(())
}
