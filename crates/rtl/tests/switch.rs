// SPDX-License-Identifier: Apache-2.0
//! The switch behind its Rust interface: one frame through both speeds, and one of the host.

use ipnuma_rtl::{Error, HostBeat, NetSpeed, NetWord, Switch, SwitchSize, SwitchWrite};

const MEM_NEXT_HOP: u8 = 21;
const MEM_REGISTER: u8 = 22;
const MEM_PORT: u8 = 26;
const PORT_MAC: u64 = 0x02_00_00_00_00_01;
const HOP_MAC: u64 = 0x02_00_00_00_00_99;
const OUT: usize = 2;

/// A frame of 60 bytes to the port, from 10.0.0.1 to 10.0.0.2, TTL 64.
fn frame() -> Vec<u8> {
    let mut bytes = PORT_MAC.to_be_bytes()[2..].to_vec();
    bytes.extend([2, 0, 0, 0, 0, 7, 0x08, 0x00]);
    bytes.extend([0x45, 0, 0, 46, 0, 0, 0, 0, 64, 17, 0x66, 0xBD]);
    bytes.extend([10, 0, 0, 1, 10, 0, 0, 2]);
    bytes.resize(60, 0xA5);
    bytes
}

/// CRC-32 of IEEE 802.3, bit by bit.
fn fcs(bytes: &[u8]) -> [u8; 4] {
    let crc = bytes.iter().fold(u32::MAX, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (0xEDB8_8320 & (crc & 1).wrapping_neg())
        })
    });
    (!crc).to_le_bytes()
}

/// Words of the line that carry a frame.
fn words(speed: NetSpeed, frame: &[u8]) -> Vec<NetWord> {
    let bytes = [&[0x55; 7][..], &[0xD5], frame, &fcs(frame)].concat();
    match speed {
        NetSpeed::TenGig => bytes
            .chunks(8)
            .enumerate()
            .map(|(at, chunk)| {
                let mut word: [u8; 8] = chunk.try_into().expect("a multiple of eight bytes");
                if at == 0 {
                    word[0] = 0xFB;
                }
                NetWord::Xgmii {
                    data: u64::from_le_bytes(word),
                    control: u8::from(at == 0),
                }
            })
            .chain([NetWord::Xgmii {
                data: 0x0707_0707_0707_07FD,
                control: 0xFF,
            }])
            .collect(),
        NetSpeed::OneGig => bytes
            .iter()
            .map(|&data| NetWord::Gmii {
                data,
                enable: true,
                error: false,
            })
            .collect(),
    }
}

fn cycle(switch: &mut Switch) -> Result<(), Error> {
    switch.settle()?;
    switch.edge()?;
    Ok(())
}

fn write(switch: &mut Switch, memory: u8, address: u32, data: u64) -> Result<(), Error> {
    switch.inputs.write = Some(SwitchWrite {
        memory,
        address,
        data: [data, 0, 0],
    });
    while !switch.settle()?.write_ready {
        switch.edge()?;
    }
    switch.edge()?;
    switch.inputs.write = None;
    Ok(())
}

/// All that leaves a port until the switch is idle, without what is between frames.
fn collect(switch: &mut Switch, input: &[NetWord]) -> Result<Vec<Vec<NetWord>>, Error> {
    let idle = switch.speed().idle();
    let mut out = vec![Vec::new(); Switch::PORTS];
    for at in 0.. {
        switch.inputs.net[0] = input.get(at).copied().unwrap_or(idle);
        cycle(switch)?;
        for (port, word) in switch.outputs().net.into_iter().enumerate() {
            if word != idle {
                out[port].push(word);
            }
        }
        if at >= input.len() && !switch.outputs().busy {
            break;
        }
        assert!(at < 10_000, "the switch stays busy");
    }
    Ok(out)
}

fn forwards(speed: NetSpeed) -> Result<(), Error> {
    let mut switch = Switch::new(speed, SwitchSize::Small)?;
    switch.reset()?;
    switch.inputs.host_ready = true;
    for port in 0..Switch::PORTS as u32 {
        write(&mut switch, MEM_PORT, port << 3, PORT_MAC + u64::from(port))?;
    }
    // The default route of IPv4 leads to next hop 5, which is at the port.
    let leaf = (OUT as u64) << 12 | 5;
    write(&mut switch, MEM_REGISTER, 0, leaf)?;
    write(
        &mut switch,
        MEM_NEXT_HOP,
        5,
        HOP_MAC << 6 | (OUT as u64) << 1 | 1,
    )?;
    // A port's settings take some cycles to its receive clock.
    for _ in 0..32 {
        cycle(&mut switch)?;
    }

    let mut left = frame();
    left[..6].copy_from_slice(&HOP_MAC.to_be_bytes()[2..]);
    left[6..12].copy_from_slice(&(PORT_MAC + OUT as u64).to_be_bytes()[2..]);
    left[22] -= 1;
    left[24] += 1;
    let sent = words(speed, &frame());
    let out = collect(&mut switch, &sent)?;
    for (port, got) in out.iter().enumerate() {
        let expected = if port == OUT {
            words(speed, &left)
        } else {
            Vec::new()
        };
        assert_eq!(*got, expected, "port {port}");
    }

    // A frame of the host, as it is.
    for (at, chunk) in frame().chunks(8).enumerate() {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        switch.inputs.host = Some(HostBeat {
            data: u64::from_le_bytes(word),
            keep: (0xFF_u16 >> (8 - chunk.len())) as u8,
            last: at == 7,
            port: 1,
        });
        while !switch.settle()?.host_in_ready {
            switch.edge()?;
        }
        switch.edge()?;
    }
    switch.inputs.host = None;
    let out = collect(&mut switch, &[])?;
    assert_eq!(out[1], words(speed, &frame()));

    // Counter 22 of a port: frames sent.
    switch.inputs.counter = (OUT as u16) << 7 | 22;
    for _ in 0..200 {
        cycle(&mut switch)?;
    }
    assert_eq!(switch.outputs().counter, 1);
    Ok(())
}

#[test]
fn a_frame_is_forwarded_at_10g() -> Result<(), Error> {
    forwards(NetSpeed::TenGig)
}

#[test]
fn a_frame_is_forwarded_at_1g() -> Result<(), Error> {
    forwards(NetSpeed::OneGig)
}
