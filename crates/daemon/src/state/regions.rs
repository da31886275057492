// SPDX-License-Identifier: Apache-2.0
//! Regions, the tokens that allow their use, and the windows that others have on them.
//!
//! Whoever has a descriptor of memory keeps it. So a revoked token costs the region its memory: it is given fresh
//! memory, and what the old windows still store goes where nobody reads. Tokens that are not revoked stay valid, but
//! their windows have to be connected again.
//!
//! Nothing that was delivered may get lost on the way, so the order is: holders are told, and other machines' NICs stop
//! to write; the owner copies the old memory, and maps the fresh one in its place; only then does anybody get a new window.
//! When the administrator takes tokens back the owner is told, and moves its region itself; until it does, the old memory
//! is the region's.

use std::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use std::ops::Range;

use ipc::protocol::{Notice, Reply, signal_page};
use ipc::token::{Rights, Token};
use rustix::io::Errno;
use subtle::ConstantTimeEq;

use super::guests::Thing;
use super::limits::room;
use super::{Answer, Effect, Machine, ProcessId, Refusal, State};

/// What a token of this region allows.
#[derive(Debug)]
pub struct Export {
    pub(super) id: u64,
    pub(super) rights: Rights,
    pub(super) range: Range<u64>,
    secret: [u8; 16],
    /// The only machine that may use it.
    peer: Option<Ipv4Addr>,
    /// Only remembered, to say so.
    pub(super) revoked: bool,
}

/// Memory of a process that others may reach.
#[derive(Debug)]
pub struct Region<H> {
    pub(super) owner: ProcessId,
    pub(super) bytes: u64,
    memory: H,
    /// The memory was given to readers: nobody can map it writable any more.
    sealed: bool,
    /// Where the owner is about to move it; nobody else has this memory yet.
    fresh: Option<H>,
    event: H,
    signal: H,
    pub(super) exports: Vec<Export>,
    pub(super) windows: Vec<u64>,
}

/// A process's use of a region.
#[derive(Debug)]
pub struct Window {
    pub(super) holder: ProcessId,
    pub(super) place: Place,
}

/// Where a window's region is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a process of this machine.
    Here {
        /// The region.
        region: u64,
        /// Of which token.
        export: u64,
    },
    /// The copy of a channel that this machine has.
    Channel {
        /// The channel.
        channel: u64,
    },
    /// In another machine.
    Elsewhere,
}

impl Place {
    pub(super) fn is_of(self, token: u64) -> bool {
        matches!(self, Self::Here { export, .. } if export == token)
    }
}

/// What a token allows to use.
pub struct Grant<H> {
    /// Of the region that it is for.
    pub export: u64,
    /// All of the region.
    pub memory: H,
    /// Wakes the region's owner.
    pub event: H,
    /// Says whether the owner sleeps.
    pub signal: H,
    /// The only machine that may use it.
    pub peer: Option<Ipv4Addr>,
}

/// Why the windows of a region end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Somebody wanted it.
    Revoked,
    /// The process with the region is gone.
    OwnerGone,
}

impl<H: Clone> State<H> {
    pub(super) fn create<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        bytes: u64,
    ) -> Result<Answer<H>, Refusal> {
        let limits = self.settings.limits.clone();
        let process = self.process(id)?;
        room(process.regions.len(), limits.regions, "regions", "regions")?;
        if bytes == 0 {
            return Err(Refusal::new(
                Errno::INVAL,
                "a region has at least one byte; 0 were asked for",
            ));
        }
        let free = limits.region_bytes - process.region_bytes;
        if bytes > free {
            return Err(Refusal::new(
                Errno::NOMEM,
                format!(
                    "a region of {bytes} bytes is more than the {free} bytes that the daemon allows this process; \
                     release others, or raise `region_bytes` in its configuration's [limits]"
                ),
            ));
        }
        let (memory, event) = (machine.memory(bytes)?, machine.event()?);
        let signal = machine.memory(signal_page::BYTES as u64)?;
        process.region_bytes += bytes;
        let region = self.fresh_id();
        self.process(id)?.regions.insert(region);
        self.regions.insert(
            region,
            Region {
                owner: id,
                bytes,
                memory: memory.clone(),
                sealed: false,
                fresh: None,
                event: event.clone(),
                signal: signal.clone(),
                exports: Vec::new(),
                windows: Vec::new(),
            },
        );
        Ok(Answer::new(
            Reply::Region { region },
            [memory, event, signal],
        ))
    }

    fn own_region(&mut self, id: ProcessId, region: u64) -> Result<&mut super::Region<H>, Refusal> {
        match self.regions.get_mut(&region) {
            Some(known) if known.owner == id => Ok(known),
            _ => Err(Refusal::new(
                Errno::PERM,
                format!(
                    "region {region} is not this process's; only who allocated it can change it"
                ),
            )),
        }
    }

    pub(super) fn export<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        number: u64,
        range: Range<u64>,
        rights: Rights,
        peer: Option<Ipv4Addr>,
    ) -> Result<Answer<H>, Refusal> {
        let limit = self.settings.limits.tokens;
        let export = self.fresh_id();
        let region = self.own_region(id, number)?;
        // Those that are revoked are remembered only to say so; they make room.
        if region.exports.len() >= limit {
            region.exports.retain(|export| !export.revoked);
        }
        room(region.exports.len(), limit, "tokens of a region", "tokens")?;
        if range.is_empty() || range.end > region.bytes {
            return Err(Refusal::new(
                Errno::INVAL,
                format!(
                    "bytes {} to {} are not in region {number}, which has {}; export a range inside of it",
                    range.start, range.end, region.bytes
                ),
            ));
        }
        if rights.can_write() && region.sealed {
            return Err(Refusal::new(
                Errno::BUSY,
                format!(
                    "processes of this machine read region {number}, so its memory can't be given to writers any more; \
                     allocate a region for these, or revoke the token of the readers first"
                ),
            ));
        }
        let secret = machine.secret()?;
        region.exports.push(Export {
            id: export,
            rights,
            range: range.clone(),
            secret,
            peer,
            revoked: false,
        });
        let management = self.settings.management;
        Ok(Answer::new(
            Reply::Token(Token {
                rights,
                management: management.unwrap_or(SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)),
                region: number,
                first: range.start,
                bytes: range.end - range.start,
                secret,
            }),
            [],
        ))
    }

    pub(super) fn revoke<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        token: &Token,
    ) -> Result<Answer<H>, Refusal> {
        let region = self.own_region(id, token.region)?;
        let Some(export) = find(&region.exports, token) else {
            return Err(Refusal::new(
                Errno::NOENT,
                format!(
                    "region {} has no such token; was it revoked before?",
                    token.region
                ),
            ));
        };
        if export.revoked {
            return Err(Refusal::new(
                Errno::NOENT,
                format!("this token of region {} was revoked before", token.region),
            ));
        }
        let export = export.id;
        self.begin_move(machine, token.region, |other| other.id == export)
    }

    pub(super) fn renew<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        region: u64,
    ) -> Result<Answer<H>, Refusal> {
        self.own_region(id, region)?;
        self.begin_move(machine, region, |_| false)
    }

    /// Revokes tokens of a region, and begins to move it to fresh memory.
    fn begin_move<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        number: u64,
        which: impl Fn(&Export) -> bool,
    ) -> Result<Answer<H>, Refusal> {
        let Some(region) = self.regions.get_mut(&number) else {
            return Ok(Answer::done());
        };
        if region.fresh.is_some() {
            return Err(Refusal::new(
                Errno::BUSY,
                format!(
                    "region {number} is being moved already; say first by Settle what came of it"
                ),
            ));
        }
        // First what can fail.
        region.fresh = Some(machine.memory(region.bytes)?);
        self.take_back(number, which);
        Ok(self.moving(number))
    }

    /// The answer to who has begun to move a region; [`Reply::Wait`] while other machines' NICs may write to it.
    pub fn moving(&self, number: u64) -> Answer<H> {
        let fresh = self.regions.get(&number).map(|region| &region.fresh);
        match fresh {
            Some(Some(fresh)) if !self.leaving.values().any(|&region| region == number) => {
                Answer::new(Reply::Done, [fresh.clone()])
            }
            Some(Some(_)) => Answer::new(Reply::Wait, []),
            _ => Answer::refused(Refusal::new(
                Errno::NOENT,
                format!("region {number} is not being moved any more"),
            )),
        }
    }

    /// Whether a token is good, and its region on the move: then its window has to wait.
    pub fn must_wait(&self, token: &Token) -> bool {
        let moving = |region: &Region<H>| region.fresh.is_some();
        self.regions.get(&token.region).is_some_and(moving) && self.check(token).is_ok()
    }

    pub(super) fn settle(
        &mut self,
        id: ProcessId,
        number: u64,
        moved: bool,
    ) -> Result<Answer<H>, Refusal> {
        let region = self.own_region(id, number)?;
        let Some(fresh) = region.fresh.take() else {
            return Err(Refusal::new(
                Errno::INVAL,
                format!(
                    "region {number} is not being moved; ask for fresh memory with Renew first"
                ),
            ));
        };
        if moved {
            (region.memory, region.sealed) = (fresh, false);
        }
        self.effects.push(Effect::Moved { region: number });
        Ok(Answer::done())
    }

    /// Other machines' NICs write no more by this grant.
    pub fn withdrawn(&mut self, grant: u64) {
        if let Some(region) = self.leaving.remove(&grant) {
            self.effects.push(Effect::Moved { region });
        }
    }

    /// Revokes tokens of a region, and ends all its windows.
    fn take_back(&mut self, number: u64, which: impl Fn(&Export) -> bool) {
        if let Some(region) = self.regions.get_mut(&number) {
            for export in region.exports.iter_mut().filter(|export| which(export)) {
                export.revoked = true;
            }
        }
        self.end_windows(number, Why::Revoked);
    }

    pub(super) fn release(&mut self, id: ProcessId, region: u64) -> Result<Answer<H>, Refusal> {
        self.own_region(id, region)?;
        self.drop_region(region, Why::Revoked);
        Ok(Answer::done())
    }

    pub(super) fn connect<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        id: ProcessId,
        token: &Token,
    ) -> Result<Answer<H>, Refusal> {
        self.room_for_window(id)?;
        let grant = self.check(token)?;
        if let Some(peer) = grant.peer
            && !machine.is_local(IpAddr::V4(peer))
        {
            return Err(refused(token, &format!("it is for the machine {peer}")));
        }
        if self.must_wait(token) {
            return Ok(Answer::new(Reply::Wait, []));
        }
        let memory = if token.rights.can_write() {
            grant.memory
        } else {
            self.seal(token)?;
            machine.read_only(&grant.memory)?
        };
        let signal = machine.read_only(&grant.signal)?;
        let place = Place::Here {
            region: token.region,
            export: grant.export,
        };
        let window = self.add_window(id, place);
        Ok(Answer::new(
            Reply::Window {
                window,
                first: token.first,
                bytes: token.bytes,
                rights: token.rights,
                remote: false,
            },
            [memory, grant.event, signal],
        ))
    }

    /// Memory is about to be given to a reader on this machine. Nobody can map it writable then, so nobody may have a token
    /// for that.
    fn seal(&mut self, token: &Token) -> Result<(), Refusal> {
        let Some(region) = self.regions.get_mut(&token.region) else {
            return Ok(());
        };
        let mut exports = region.exports.iter();
        if exports.any(|export| !export.revoked && export.rights.can_write()) {
            return Err(Refusal::new(
                Errno::BUSY,
                format!(
                    "region {} has tokens for writers, too, and on one machine memory is either for these or for readers; \
                     its owner has to allocate a region for each",
                    token.region
                ),
            ));
        }
        region.sealed = true;
        Ok(())
    }

    pub(super) fn room_for_window(&mut self, id: ProcessId) -> Result<(), Refusal> {
        let limit = self.settings.limits.windows;
        room(self.process(id)?.windows.len(), limit, "windows", "windows")
    }

    pub(super) fn add_window(&mut self, holder: ProcessId, place: Place) -> u64 {
        let window = self.fresh_id();
        self.windows.insert(window, Window { holder, place });
        if let Some(process) = self.processes.get_mut(&holder) {
            process.windows.insert(window);
        }
        if let Place::Here { region, .. } = place
            && let Some(region) = self.regions.get_mut(&region)
        {
            region.windows.push(window);
        }
        window
    }

    /// What a token allows to use.
    pub(super) fn check(&self, token: &Token) -> Result<Grant<H>, Refusal> {
        let unknown = || {
            refused(
                token,
                "there is no such token; was its process restarted? Fetch a new one from it",
            )
        };
        let region = self.regions.get(&token.region).ok_or_else(unknown)?;
        let export = find(&region.exports, token).ok_or_else(unknown)?;
        if export.revoked {
            return Err(Refusal::new(
                Errno::KEYREVOKED,
                format!(
                    "the token for region {} was revoked by its owner; fetch a new one from it",
                    token.region
                ),
            ));
        }
        Ok(Grant {
            export: export.id,
            memory: region.memory.clone(),
            event: region.event.clone(),
            signal: region.signal.clone(),
            peer: export.peer,
        })
    }

    pub(super) fn disconnect(&mut self, id: ProcessId, window: u64) -> Result<Answer<H>, Refusal> {
        if self.process(id)?.windows.remove(&window) {
            self.drop_window(window);
        }
        Ok(Answer::done())
    }

    /// By its number, for the administrator: all its tokens and windows end, and the owner is told.
    pub(super) fn revoke_region(&mut self, number: u64) -> Result<Answer<H>, Refusal> {
        let Some(region) = self.regions.get(&number) else {
            return Err(Refusal::new(
                Errno::NOENT,
                format!("there is no region {number}; `ipnuma regions` lists them"),
            ));
        };
        let (owner, event) = (region.owner, region.event.clone());
        let moving = region.fresh.is_some();
        self.take_back(number, |_| true);
        // An owner that is about to move it leaves the old memory behind anyhow.
        if !moving {
            let notice = Notice::Revoked {
                channel: None,
                window: None,
                region: Some(number),
            };
            self.notify(owner, notice, []);
            // It may sleep until somebody signals. The notice comes first.
            self.effects.push(Effect::Ring { event });
        }
        Ok(Answer::done())
    }

    pub(super) fn drop_region(&mut self, number: u64, why: Why) {
        self.end_windows(number, why);
        if let Some(region) = self.regions.remove(&number)
            && let Some(owner) = self.processes.get_mut(&region.owner)
        {
            owner.regions.remove(&number);
            owner.region_bytes -= region.bytes;
        }
        // Who waits for a window on it waits in vain.
        self.effects.push(Effect::Moved { region: number });
    }

    fn end_windows(&mut self, number: u64, why: Why) {
        let Some(region) = self.regions.get_mut(&number) else {
            return;
        };
        for window in std::mem::take(&mut region.windows) {
            self.guests.remove(Thing::Window, window);
            let Some(Window { holder, .. }) = self.windows.remove(&window) else {
                continue;
            };
            if let Some(process) = self.processes.get_mut(&holder) {
                process.windows.remove(&window);
            }
            if self.others == Some(holder) {
                self.leaving.insert(window, number);
            }
            let notice = match why {
                Why::Revoked => Notice::Revoked {
                    channel: None,
                    window: Some(window),
                    region: None,
                },
                Why::OwnerGone => Notice::PeerLost { window },
            };
            self.notify(holder, notice, []);
        }
    }

    /// Its holder has no more use of it.
    pub(super) fn drop_window(&mut self, number: u64) {
        self.guests.remove(Thing::Window, number);
        match self.windows.remove(&number).map(|window| window.place) {
            Some(Place::Here { region, .. }) => {
                if let Some(region) = self.regions.get_mut(&region) {
                    region.windows.retain(|&window| window != number);
                }
            }
            // Who ends it says what becomes of the channel.
            Some(Place::Channel { .. }) => {}
            Some(Place::Elsewhere) => self.effects.push(Effect::CloseElsewhere { window: number }),
            None => {}
        }
    }
}

/// The export that a token is of. Every secret is compared, and in constant time, so that the time tells nothing.
fn find<'a>(exports: &'a [Export], token: &Token) -> Option<&'a Export> {
    let end = token.first.saturating_add(token.bytes);
    let mut found = None;
    for export in exports {
        let secret = export.secret.ct_eq(&token.secret);
        let rest = export.rights == token.rights && export.range == (token.first..end);
        if bool::from(secret) && rest {
            found = Some(export);
        }
    }
    found
}

pub(super) fn refused(token: &Token, why: &str) -> Refusal {
    Refusal::new(
        Errno::ACCESS,
        format!("the token for region {} is refused: {why}", token.region),
    )
}
