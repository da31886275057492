// SPDX-License-Identifier: Apache-2.0
//! Other machines: their windows on regions of this one, and this one's windows on theirs.
//!
//! What carries the stores between machines is not known here; only who has which window. The windows that other
//! machines have are held by a process of their own, so that they end as all others do.

use std::net::Ipv4Addr;

use ipc::protocol::Notice;
use ipc::token::Token;
use rustix::io::Errno;

use super::guests::Thing;
use super::regions::{Place, refused};
use super::{Machine, Process, ProcessId, Refusal, State};

/// What another machine may use of a region here.
#[derive(Clone, Debug)]
pub struct Granted<H> {
    /// Its number: the window that the other machine has.
    pub grant: u64,
    /// All of the region.
    pub memory: H,
    /// Wakes the region's owner.
    pub event: H,
    /// When it is woken.
    pub sleeper: Sleeping<H>,
    /// Size of the region, or of a channel's memory.
    pub region_bytes: u64,
    /// What the token allows.
    pub token: Token,
}

/// How it is known whether somebody sleeps.
#[derive(Clone, Debug)]
pub enum Sleeping<H> {
    /// By a region's signal page.
    Page(H),
    /// By a word in the memory of a channel, of this end.
    End(usize),
}

impl<H: Clone> State<H> {
    /// The process that stands for all other machines.
    pub fn outside(&mut self) -> ProcessId {
        let id = self.fresh_id();
        let process = Process {
            greeted: true,
            program: "other machines".to_owned(),
            ..Process::default()
        };
        self.processes.insert(id, process);
        self.others = Some(id);
        id
    }

    /// Whether another daemon has to be asked about this token.
    pub fn is_elsewhere(&self, token: &Token) -> bool {
        let here = self.settings.management;
        !token.management.ip().is_unspecified() && here != Some(token.management)
    }

    /// A process wants to use another machine's region: its window's number.
    ///
    /// # Errors
    /// If it may not have another window.
    pub fn connect_elsewhere(&mut self, id: ProcessId) -> Result<u64, Refusal> {
        if !self.process(id)?.greeted {
            return Err(Refusal::new(
                Errno::PROTO,
                "the first request must be Hello; connect to the daemon again",
            ));
        }
        self.room_for_window(id)?;
        Ok(self.add_window(id, Place::Elsewhere))
    }

    /// Another machine's daemon shows a token of this machine's.
    ///
    /// # Errors
    /// If the token does not allow it.
    pub fn grant<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        outside: ProcessId,
        peer: Ipv4Addr,
        token: &Token,
    ) -> Result<Granted<H>, Refusal> {
        let granted = self.allow(machine, outside, peer, token);
        if let Err(refusal) = &granted
            && refusal.errno == Errno::ACCESS
        {
            let why = &refusal.message;
            self.refuse_peer(format!("{peer} has shown a token and was refused: {why}"));
        }
        granted
    }

    fn allow<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        outside: ProcessId,
        peer: Ipv4Addr,
        token: &Token,
    ) -> Result<Granted<H>, Refusal> {
        if self.is_far(token.region) {
            return self.grant_channel(outside, peer, token);
        }
        self.room_for_window(outside)?;
        let grant = self.check(token)?;
        if let Err(why) = self.may_have(Thing::Window, peer) {
            self.refuse_peer(why.clone());
            return Err(Refusal::new(rustix::io::Errno::NOBUFS, why));
        }
        if let Some(only) = grant.peer
            && only != peer
        {
            return Err(refused(
                token,
                &format!("it is for the machine {only}, and {peer} has shown it"),
            ));
        }
        let signal = machine.read_only(&grant.signal)?;
        let region_bytes = self
            .regions
            .get(&token.region)
            .map_or(0, |region| region.bytes);
        let place = Place::Here {
            region: token.region,
            export: grant.export,
        };
        let window = self.add_window(outside, place);
        self.guests.add(Thing::Window, window, peer);
        Ok(Granted {
            grant: window,
            memory: grant.memory,
            event: grant.event,
            sleeper: Sleeping::Page(signal),
            region_bytes,
            token: *token,
        })
    }

    /// A window's holder has no more use of it, or never got it.
    pub fn end_window(&mut self, window: u64) {
        let holder = self.windows.get(&window).map(|window| window.holder);
        if let Some(process) = holder.and_then(|holder| self.processes.get_mut(&holder)) {
            process.windows.remove(&window);
        }
        self.drop_window(window);
    }

    /// The other machine has no more use of a grant, or is `lost`.
    pub fn grant_ended<M: Machine<Handle = H>>(
        &mut self,
        machine: &mut M,
        others: ProcessId,
        grant: u64,
        lost: bool,
    ) {
        let place = self.windows.get(&grant).map(|window| window.place);
        self.end_window(grant);
        if let Some(Place::Channel { channel }) = place {
            self.far_end_closed(machine, others, channel, lost);
        }
    }

    /// Something has happened to the other machine's end of a window; its holder gives it up itself.
    pub fn tell_holder(&mut self, window: u64, notice: Notice) {
        if let Some(holder) = self.windows.get(&window).map(|window| window.holder) {
            self.notify(holder, notice, []);
        }
    }
}
