// SPDX-License-Identifier: Apache-2.0
//! Two machines, each with the reference model of the NIC in its slot, joined by a cable. Whenever software touches a
//! BAR, both run until nothing is under way any more.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use host::backend::pcie::bar::{Bar, LINE};
use host::backend::pcie::memory::Mapper;
use host::backend::pcie::{Parts, PcieError};
use model::{BAR_PAGES, BAR_REGISTERS, Config, Effect, Nic};
use wire::{Completion, CompletionStatus, MemRequest, TlpHeader, TlpView, byte_enables};

/// Pages of each board: few, so that setting a board up is quick.
pub const PAGES: usize = 64;

struct Machine {
    nic: Nic,
    /// Memory that the board may reach: bus address, which is also where we find it, and length.
    reach: Vec<(u64, usize)>,
    /// Data of the CPU's last load.
    loaded: Vec<u8>,
}

/// Both machines and the cable.
pub struct World {
    machines: [Machine; 2],
    frames: VecDeque<(usize, Vec<u8>)>,
    sent: u64,
    /// Every so many frames one is lost; 0: none.
    pub lose_every: u64,
    /// All frames are lost.
    pub cut: bool,
    now_us: u32,
}

/// What the tests share with their BARs.
pub type Shared = Arc<Mutex<World>>;

/// The world, also after a panic.
pub fn lock(world: &Shared) -> MutexGuard<'_, World> {
    world.lock().unwrap_or_else(PoisonError::into_inner)
}

impl World {
    /// Two machines after reset.
    pub fn new() -> Shared {
        let machine = || Machine {
            nic: Nic::new(Config {
                pages: PAGES,
                pc_ids: 8,
                regions: 8,
                sessions: 8,
                ..Config::default()
            }),
            reach: Vec::new(),
            loaded: Vec::new(),
        };
        Arc::new(Mutex::new(Self {
            machines: [machine(), machine()],
            frames: VecDeque::new(),
            sent: 0,
            lose_every: 0,
            cut: false,
            now_us: 0,
        }))
    }

    /// The NIC of a machine.
    pub fn nic(&self, at: usize) -> &Nic {
        &self.machines[at].nic
    }

    fn root(&mut self, at: usize, tlp: &[u8], bar: u8) {
        let mut effects = Vec::new();
        self.machines[at].nic.tlp_from_root(tlp, bar, &mut effects);
        self.take(at, effects);
    }

    fn take(&mut self, at: usize, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Frame(_, bytes) => self.frames.push_back((1 - at, bytes)),
                Effect::Tlp(_, tlp) => self.tlp_from_board(at, &tlp),
            }
        }
    }

    fn tlp_from_board(&mut self, at: usize, tlp: &[u8]) {
        let view = TlpView::new(tlp).expect("boards send whole TLPs");
        match view.header().expect("boards send known TLPs") {
            TlpHeader::MemWrite(request) => self.machines[at].write(&request, view.data()),
            TlpHeader::MemRead(request) => {
                let data = self.machines[at].read(&request);
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
                let answer = completion
                    .emit(&data)
                    .expect("its data are as long as it says");
                self.root(at, &answer, 7);
            }
            TlpHeader::Completion(completion) => {
                let loaded = &mut self.machines[at].loaded;
                match completion.status {
                    CompletionStatus::Successful => loaded.extend_from_slice(view.data()),
                    // What a processor sees of a load that failed.
                    _ => loaded.extend_from_slice(&[0xFF; LINE]),
                }
            }
        }
    }

    /// Runs until nothing is under way.
    fn run(&mut self) {
        for _ in 0..1_000_000 {
            if let Some((to, frame)) = self.frames.pop_front() {
                self.sent += 1;
                if self.cut || self.lose_every > 0 && self.sent.is_multiple_of(self.lose_every) {
                    continue;
                }
                let mut effects = Vec::new();
                self.machines[to].nic.frame_from_mac(&frame, &mut effects);
                self.take(to, effects);
                continue;
            }
            let ticks = self
                .machines
                .iter()
                .filter_map(|machine| machine.nic.net_deadline())
                .min();
            let us = self
                .machines
                .iter()
                .filter_map(|machine| machine.nic.us_deadline())
                .min();
            if ticks.is_none() && us.is_none() {
                return;
            }
            // Ten ticks of the network side are about a microsecond.
            let ticks = ticks
                .unwrap_or(u64::MAX)
                .min(us.map_or(u64::MAX, |us| 10 * u64::from(us) + 1));
            self.now_us = self.now_us.wrapping_add((ticks / 10) as u32 + 1);
            for at in 0..2 {
                let mut effects = Vec::new();
                self.machines[at].nic.tick_net(ticks, &mut effects);
                self.machines[at].nic.tick(self.now_us, &mut effects);
                self.take(at, effects);
            }
        }
        panic!("the boards never come to rest");
    }
}

impl Machine {
    fn reached(&self, address: u64, bytes: usize) -> *mut u8 {
        let end = address + bytes as u64;
        let inside = |&(base, len): &(u64, usize)| address >= base && end <= base + len as u64;
        assert!(
            self.reach.iter().any(inside),
            "DMA at {address:#x} is outside the memory given to the board"
        );
        std::ptr::with_exposed_provenance_mut(address as usize)
    }

    fn write(&mut self, request: &MemRequest, data: &[u8]) {
        let at = self.reached(request.address, data.len());
        let last = data.len() / 4 - 1;
        for (index, byte) in data.iter().enumerate() {
            let enables = match index / 4 {
                0 => request.first_be,
                dw if dw == last => request.last_be,
                _ => 0xF,
            };
            if enables >> (index % 4) & 1 == 1 {
                // SAFETY: inside a mapping that the test has given to the board and not taken back.
                unsafe { at.add(index).write_volatile(*byte) };
            }
        }
    }

    fn read(&self, request: &MemRequest) -> Vec<u8> {
        let bytes = 4 * usize::from(request.length);
        let at = self.reached(request.address, bytes);
        // SAFETY: as in `write`.
        (0..bytes)
            .map(|index| unsafe { at.add(index).read_volatile() })
            .collect()
    }
}

/// A BAR of one of the boards.
pub struct ModelBar {
    world: Shared,
    at: usize,
    bar: u8,
    len: usize,
    /// Bytes that leave the processor as one TLP.
    combine: usize,
}

impl ModelBar {
    fn request(offset: usize, len: usize, tag: u8) -> MemRequest {
        let lead = offset % 4;
        let length = (lead + len).div_ceil(4);
        let trail = 4 * length - lead - len;
        let (first_be, last_be) = byte_enables(length as u16, lead as u8, trail as u8);
        MemRequest {
            length: length as u16,
            first_be,
            last_be,
            tag,
            address: (offset - lead) as u64,
            ..MemRequest::default()
        }
    }
}

impl Bar for ModelBar {
    fn len(&self) -> usize {
        self.len
    }

    fn read32(&self, offset: usize) -> u32 {
        let mut bytes = [0; 4];
        self.load(offset, &mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.store(offset, &value.to_le_bytes());
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        let mut world = lock(&self.world);
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let step = rest.len().min(self.combine - offset % self.combine);
            let request = Self::request(offset, step, 0);
            let mut data = vec![0xEE; 4 * usize::from(request.length)];
            data[offset % 4..][..step].copy_from_slice(&rest[..step]);
            let tlp = TlpHeader::MemWrite(request)
                .emit(&data)
                .expect("well-formed");
            world.root(self.at, &tlp, self.bar);
            (offset, rest) = (offset + step, &rest[step..]);
        }
        world.run();
    }

    fn load(&self, offset: usize, into: &mut [u8]) {
        let mut world = lock(&self.world);
        let mut done = 0;
        while done < into.len() {
            let at = offset + done;
            let step = (into.len() - done).min(4 - at % 4);
            let tlp = TlpHeader::MemRead(Self::request(at, step, 9))
                .emit(&[])
                .expect("well-formed");
            world.machines[self.at].loaded.clear();
            world.root(self.at, &tlp, self.bar);
            world.run();
            let loaded = &world.machines[self.at].loaded;
            into[done..done + step].copy_from_slice(&loaded[at % 4..][..step]);
            done += step;
        }
    }

    fn fence(&self) {}
}

struct ModelMapper {
    world: Shared,
    at: usize,
}

impl Mapper for ModelMapper {
    fn map(&self, base: *mut u8, len: usize) -> Result<u64, PcieError> {
        let address = base.expose_provenance() as u64;
        lock(&self.world).machines[self.at]
            .reach
            .push((address, len));
        Ok(address)
    }

    fn unmap(&self, address: u64, len: usize) {
        lock(&self.world).machines[self.at]
            .reach
            .retain(|&known| known != (address, len));
    }
}

/// The board of a machine, whose processor puts `combine` bytes at most into a TLP.
pub fn parts(world: &Shared, at: usize, combine: usize) -> Parts {
    let bar = |bar, len, combine| {
        Box::new(ModelBar {
            world: Arc::clone(world),
            at,
            bar,
            len,
            combine,
        })
    };
    Parts {
        registers: bar(BAR_REGISTERS, 1 << wire::registers::BAR0_ADDR_W, 4),
        pages: bar(BAR_PAGES, PAGES * 4096, combine),
        mapper: Box::new(ModelMapper {
            world: Arc::clone(world),
            at,
        }),
    }
}
