// SPDX-License-Identifier: Apache-2.0
//! The driver `linux/ipnuma` and the `rack` back end in two guests, each with the reference model of the NIC as its PCI
//! device, joined by a cable. The guests' programs are `examples/guest.rs`. With the NICs in RTL it is run in the rack
//! (`crates/rack/tests/ipnuma_guests.rs`). Needs the kernel of `tools/uml-kernel`; without it this says so and ends.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use model::{BAR_PAGES, BAR_REGISTERS, Config, Effect, Nic};
use uml::{DeviceSpec, Guest, GuestEvent, GuestSpec, Next, PciSpec, Timed};
use wire::{Completion, CompletionStatus, MemRequest, TlpHeader, TlpView, byte_enables};

/// From the end of a call to the NIC, from the NIC to memory, and back with an answer.
const BUS_NS: u64 = 200;
/// From NIC to NIC.
const CABLE_NS: u64 = 1_000;
/// From the write to memory to the core that polls.
const POLL_NS: u64 = 50;
/// A tick of the NIC's network side.
const TICK_NS: u64 = 100;
const ROUNDS: u32 = 20;

/// BAR 4, as `docs/linux.md` has it.
const ARM: u64 = 0x00;
const DISARM_ALL: u64 = 0x08;
const DISARM: u64 = 0x10;
const CLOCK: u64 = 0x18;

/// Something that will happen to a machine.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Frame(Vec<u8>),
    /// A TLP from the NIC.
    Tlp(Vec<u8>),
    /// A TLP to the NIC, and its BAR.
    ToNic(Vec<u8>, u8),
    /// The core that polls sees something.
    Wake,
    /// The model's own time.
    Tick,
}

struct Machine {
    guest: Guest,
    nic: Nic,
    /// When the model was last told the time.
    told: u64,
    armed: BTreeSet<u64>,
    /// The read that the guest waits for: its tag, length, and what has come.
    read: Option<(u64, usize, Vec<u8>)>,
}

struct World {
    machines: Vec<Machine>,
    due: BinaryHeap<Reverse<(u64, u64, usize, Due)>>,
    count: u64,
    stores: Vec<(u64, usize, usize)>,
    /// Frames to neither of the two.
    astray: Vec<Vec<u8>>,
    /// Sealed frames to nobody.
    sealed: usize,
}

fn request(offset: u64, len: usize, tag: u8) -> MemRequest {
    let lead = (offset % 4) as usize;
    let length = (lead + len).div_ceil(4);
    let trail = 4 * length - lead - len;
    let (first_be, last_be) = byte_enables(length as u16, lead as u8, trail as u8);
    MemRequest {
        length: length as u16,
        first_be,
        last_be,
        tag,
        address: offset - lead as u64,
        ..MemRequest::default()
    }
}

impl World {
    fn after(&mut self, time: u64, machine: usize, due: Due) {
        self.count += 1;
        self.due.push(Reverse((time, self.count, machine, due)));
    }

    /// Lets the model of a NIC know that it is `now`.
    fn tell(&mut self, now: u64, at: usize) {
        let machine = &mut self.machines[at];
        let ticks = now / TICK_NS - machine.told / TICK_NS;
        machine.told = now;
        let mut effects = Vec::new();
        machine.nic.tick_net(ticks, &mut effects);
        machine.nic.tick((now / 1000) as u32, &mut effects);
        self.take(now, at, effects);
    }

    fn take(&mut self, now: u64, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Frame(_, bytes) => {
                    // To nobody, sealed.
                    if bytes[..6] == [2, 0, 0, 0, 0, 3]
                        && bytes[wire::PAYLOAD_OFFSET] == wire::SEAL_MAGIC
                    {
                        self.sealed += 1;
                        continue;
                    }
                    // 02:00:00:00:00:01 and :02.
                    if !matches!(bytes[..6], [2, 0, 0, 0, 0, 1 | 2]) {
                        self.astray.push(bytes.clone());
                    }
                    self.after(now + CABLE_NS, 1 - at, Due::Frame(bytes));
                }
                Effect::Tlp(_, tlp) => self.after(now + BUS_NS, at, Due::Tlp(tlp)),
            }
        }
        let nic = &self.machines[at].nic;
        let net = nic.net_deadline().map(|ticks| ticks * TICK_NS);
        let host = nic.us_deadline().map(|us| u64::from(us) * 1000 + 1000);
        if let Some(soonest) = net.into_iter().chain(host).min() {
            self.after(now + soonest.max(TICK_NS), at, Due::Tick);
        }
    }

    fn happen(&mut self, now: u64, at: usize, due: Due) {
        self.tell(now, at);
        let mut effects = Vec::new();
        match due {
            Due::Tick => {}
            Due::Frame(frame) => drop(self.machines[at].nic.frame_from_mac(&frame, &mut effects)),
            Due::ToNic(tlp, bar) => self.machines[at].nic.tlp_from_root(&tlp, bar, &mut effects),
            Due::Wake => self.machines[at].guest.interrupt(now, 0, 1).unwrap(),
            Due::Tlp(tlp) => self.take_tlp(now, at, &tlp),
        }
        self.take(now, at, effects);
    }

    fn take_tlp(&mut self, now: u64, at: usize, tlp: &[u8]) {
        let view = TlpView::new(tlp).expect("NICs send whole TLPs");
        let machine = &mut self.machines[at];
        match view.header().expect("NICs send known TLPs") {
            TlpHeader::MemWrite(request) => {
                let data = view.data();
                let word = u32::from_le_bytes(data[..4].try_into().unwrap());
                if let Some(vector) = machine.guest.msi_vector(0, request.address, word) {
                    machine.guest.interrupt(now, 0, vector).unwrap();
                    return;
                }
                let last = data.len() / 4 - 1;
                for (index, byte) in data.iter().enumerate() {
                    let enables = match index / 4 {
                        0 => request.first_be,
                        dw if dw == last => request.last_be,
                        _ => 0xF,
                    };
                    if enables >> (index % 4) & 1 == 1 {
                        let address = request.address + index as u64;
                        machine.guest.write_memory(address, &[*byte]).unwrap();
                    }
                }
                let hit = |value: &u64| {
                    let bytes = 4096 << (value & 63);
                    let begin = value & !0xFFF;
                    (begin..begin + bytes).contains(&request.address)
                };
                if let Some(value) = machine.armed.iter().copied().find(hit) {
                    machine.armed.remove(&value);
                    self.after(now + POLL_NS, at, Due::Wake);
                }
            }
            TlpHeader::MemRead(request) => {
                let mut data = vec![0; 4 * usize::from(request.length)];
                machine
                    .guest
                    .read_memory(request.address, &mut data)
                    .unwrap();
                let completion = TlpHeader::Completion(Completion {
                    tc: 0,
                    attr: 0,
                    ep: false,
                    length: request.length,
                    completer_id: 0,
                    status: CompletionStatus::Successful,
                    byte_count: request.byte_count(),
                    requester_id: request.requester_id,
                    tag: request.tag,
                    lower_address: request.lower_address(),
                });
                let answer = completion.emit(&data).expect("well-formed");
                self.after(now + BUS_NS, at, Due::ToNic(answer, 7));
            }
            TlpHeader::Completion(completion) => {
                let (tag, length, mut got) = machine.read.take().expect("somebody reads");
                match completion.status {
                    CompletionStatus::Successful => got.extend_from_slice(view.data()),
                    _ => got = vec![0xFF; length + 8],
                }
                let lead = usize::from(completion.lower_address % 4);
                if got.len() >= length {
                    let skip = if got.len() >= lead + length { lead } else { 0 };
                    machine
                        .guest
                        .complete_read(now, tag, &got[skip..skip + length])
                        .unwrap();
                } else {
                    machine.read = Some((tag, length, got));
                }
            }
        }
    }

    /// What a guest did.
    fn did(&mut self, at: usize, Timed { ns, event }: Timed) {
        match event {
            GuestEvent::MmioWrite {
                bar: 4,
                offset,
                bytes,
                ..
            } => {
                let value = bytes
                    .iter()
                    .rev()
                    .fold(0, |value, byte| value << 8 | u64::from(*byte));
                let armed = &mut self.machines[at].armed;
                assert_eq!(bytes.len(), if offset == DISARM_ALL { 4 } else { 8 });
                match offset {
                    ARM => drop(armed.insert(value)),
                    DISARM_ALL => armed.clear(),
                    DISARM => drop(armed.remove(&value)),
                    _ => panic!("BAR 4 has nothing to write at {offset:#x}"),
                }
            }
            GuestEvent::MmioWrite {
                bar, offset, bytes, ..
            } => {
                assert!(bytes.len() <= 64, "{} bytes in one write", bytes.len());
                assert_eq!(offset / 64, (offset + bytes.len() as u64 - 1) / 64);
                let request = request(offset, bytes.len(), 0);
                let mut data = vec![0xEE; 4 * usize::from(request.length)];
                data[(offset % 4) as usize..][..bytes.len()].copy_from_slice(&bytes);
                let tlp = TlpHeader::MemWrite(request)
                    .emit(&data)
                    .expect("well-formed");
                if bar == BAR_PAGES {
                    self.stores.push((ns, at, bytes.len()));
                }
                self.after(ns + BUS_NS, at, Due::ToNic(tlp, bar));
            }
            GuestEvent::MmioRead {
                bar,
                offset,
                length,
                tag,
                ..
            } => {
                assert!(
                    bar == BAR_REGISTERS || bar == BAR_PAGES,
                    "a read of BAR {bar}"
                );
                self.machines[at].read = Some((tag, length as usize, Vec::new()));
                let tlp = TlpHeader::MemRead(request(offset, length as usize, 9))
                    .emit(&[])
                    .expect("well-formed");
                self.after(ns + BUS_NS, at, Due::ToNic(tlp, bar));
            }
            GuestEvent::BusMaster { .. } | GuestEvent::Exited { .. } => {}
            GuestEvent::Frame { .. } => panic!("there is no network card"),
        }
    }

    /// Runs until both guests have ended.
    fn run(&mut self) {
        let mut events = Vec::new();
        loop {
            let wanted = [0, 1].map(|at| match self.machines[at].guest.next() {
                Next::At(time) => time,
                Next::Never | Next::Exited(_) => u64::MAX,
            });
            if (0..2).all(|at| matches!(self.machines[at].guest.next(), Next::Exited(_))) {
                return;
            }
            let due = self
                .due
                .peek()
                .map_or(u64::MAX, |Reverse((time, ..))| *time);
            let (run, who) = [(wanted[0], 0), (wanted[1], 1)].into_iter().min().unwrap();
            assert!(
                due < u64::MAX || run < u64::MAX,
                "both guests wait for ever"
            );
            if due <= run {
                let Reverse((time, _, at, due)) = self.due.pop().unwrap();
                self.happen(time, at, due);
                continue;
            }
            let free_until = due.min(wanted[1 - who].saturating_add(CABLE_NS));
            let guest = &mut self.machines[who].guest;
            guest
                .run(run, free_until, BUS_NS, &mut events)
                .unwrap_or_else(|error| panic!("{error}"));
            for event in events.drain(..) {
                self.did(who, event);
            }
        }
    }
}

/// The example's executable, beside this test.
fn program() -> PathBuf {
    let executable = std::env::current_exe().expect("this test has a name");
    let profile = executable.parent().and_then(Path::parent);
    let program = profile
        .expect("tests are in target/PROFILE/deps")
        .join("examples/guest");
    assert!(
        program.exists(),
        "{} is not built: run all tests of the package, or cargo build -p host --examples",
        program.display()
    );
    program
}

fn start(shared: &Path, own: usize) -> Guest {
    let names = ["ping", "pong"];
    let directory = shared.join(names[own]);
    fs::create_dir(&directory).unwrap();
    let kernel = uml::kernel().unwrap_or_else(|error| panic!("{error}"));
    let module = kernel.with_file_name("ipnuma.ko");
    for (from, to) in [(module, "ipnuma.ko"), (program(), "guest")] {
        fs::copy(&from, directory.join(to))
            .unwrap_or_else(|error| panic!("{}: {error}; run tools/uml-kernel", from.display()));
    }
    let machine = |number: usize| {
        format!("address = \"10.0.0.{number}\"\nmac = \"02:00:00:00:00:0{number}\"\n")
    };
    let config = format!(
        "backend = \"rack\"\n[rack]\n{}[[rack.peer]]\n{}session = 1\npeer_session = 1\nepoch = 5\n",
        machine(own + 1),
        machine(2 - own)
    );
    fs::write(directory.join("config.toml"), config).unwrap();
    // The tokens' directory is the host's, in whose /proc self is the kernel's process.
    let init = directory.join("init.sh");
    let text = format!(
        "#!/bin/sh
mount -t proc none /proc
mount -t sysfs none /sys
mount -t tmpfs none /run
mkdir /run/own /run/tokens
mount -t hostfs none /run/own -o /proc/self/cwd
mount -t hostfs none /run/tokens -o /proc/self/cwd/..
exec </dev/null >/run/own/out 2>&1
export PATH=/usr/sbin:/usr/bin:/sbin:/bin IPNUMA_CONFIG=/run/own/config.toml
insmod /run/own/ipnuma.ko store_ns=223 && /run/own/guest {} /run/tokens/tokens {ROUNDS} && rmmod ipnuma
echo $? >/run/own/status
echo o >/proc/sysrq-trigger
sleep 1000
",
        names[own]
    );
    fs::write(&init, text).unwrap();
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).unwrap();
    Guest::start(GuestSpec {
        name: names[own].into(),
        kernel,
        memory_mb: 64,
        directory,
        init,
        parameters: vec![],
        devices: vec![DeviceSpec::Pci(PciSpec {
            vendor: 0x1F3D,
            device: 1,
            class: 0xFF_0000,
            bars: [8 << 20, 0, 16 << 20, 0, 4096, 0],
            msi_vectors: 2,
            clock: Some((4, CLOCK)),
            posted_before_interrupt: 64,
            ..PciSpec::default()
        })],
        counter: false,
        id: own as u64,
    })
    .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
#[ignore = "needs the guests' kernel: tools/uml-kernel; run by ./test guests"]
fn two_guests_store_into_each_others_memory() {
    if let Err(error) = uml::kernel() {
        // CI sets this, so that a missing kernel is no success there.
        assert!(std::env::var_os("IPNUMA_UML_REQUIRED").is_none(), "{error}");
        skip::skip!("{error}");
        return;
    }
    let shared = tempfile::tempdir().unwrap();
    fs::create_dir(shared.path().join("tokens")).unwrap();
    // The guests' processes and this thread on one processor: a turn is some microseconds then, not a hundred.
    let one = uml::OneCpu::here().unwrap();
    let machines = [0, 1].map(|own| Machine {
        guest: start(shared.path(), own),
        nic: Nic::new(Config {
            pages: 4096,
            pc_ids: 8,
            regions: 16,
            sessions: 8,
            ..Config::default()
        }),
        told: 0,
        armed: BTreeSet::new(),
        read: None,
    });
    let mut world = World {
        machines: machines.into(),
        due: BinaryHeap::new(),
        count: 0,
        stores: Vec::new(),
        astray: Vec::new(),
        sealed: 0,
    };
    world.run();
    drop(one);
    let read = |guest: &str, file: &str| {
        let path = shared.path().join(guest).join(file);
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    };
    let out = ["ping", "pong"].map(|guest| read(guest, "out"));
    for guest in ["ping", "pong"] {
        assert_eq!(
            read(guest, "status").trim(),
            "0",
            "{out:?}\n{}",
            read(guest, "console.log")
        );
        let console = read(guest, "console.log");
        assert!(
            !console.contains("WARNING") && !console.contains("BUG"),
            "{console}"
        );
    }
    println!("{}\n{}", out[0], out[1]);
    // One way: to the NIC, the cable, to memory, to the core. Twice that, and nothing that the kernel adds.
    let trip = 2 * (BUS_NS + CABLE_NS + BUS_NS + POLL_NS);
    assert!(
        out[0].contains(&format!("least {trip} ns, median {trip} ns")),
        "{} is expected: {}",
        trip,
        out[0]
    );
    for refusal in [
        "a block of 6000 bytes arrived",
        "no memory: ",
        "a word that nobody writes: waiting for a store: not within the time given",
        "a charge of 1234 ns took 1234 ns",
        "after the revocation: the server has revoked",
        "patience is rewarded",
        "a window of the former peer: ",
        "a session was sealed",
        "a sealed peer: ",
        "nobody has his share",
    ] {
        assert!(out[0].contains(refusal), "{refusal:?} is not in {}", out[0]);
    }
    assert_eq!(
        world.astray,
        Vec::<Vec<u8>>::new(),
        "what was mapped for the peer went to a stranger"
    );
    assert!(world.sealed >= 3, "of three stores {} frames", world.sealed);
    assert!(
        out[1].contains("nothing came after the revocation"),
        "{}",
        out[1]
    );
    // Two stores of one processor are at least what one costs apart.
    for at in 0..2 {
        let times: Vec<u64> = world
            .stores
            .iter()
            .filter(|store| store.1 == at)
            .map(|store| store.0)
            .collect();
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= 223));
    }
}
