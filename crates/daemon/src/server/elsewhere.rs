// SPDX-License-Identifier: Apache-2.0
//! What another machine has to be asked before a process is answered.

use std::net::{Ipv4Addr, SocketAddr};

use ipc::protocol::Notice;
use ipc::token::Token;
use rustix::io::Errno;

use super::Server;
use super::client::Awaited;
use crate::machine::Handle;
use crate::outside::Announcement;
use crate::state::{Announced, Answer, Asked, ProcessId, Refusal};

impl Server {
    /// Asks another machine; its answer comes as an event.
    pub(super) fn connect_elsewhere(&mut self, id: ProcessId, token: Token) -> Result<(), Refusal> {
        let Some(outside) = &mut self.outside else {
            return Err(Refusal::new(
                Errno::HOSTUNREACH,
                format!(
                    "the token is of the machine {}, and this daemon serves its own only; \
                     start it with --management and its address",
                    token.management
                ),
            ));
        };
        let window = self.state.connect_elsewhere(id)?;
        let Some(client) = self.clients.get_mut(&id) else {
            return Ok(());
        };
        client.awaits = Some(Awaited::Window(window, token));
        outside.open(window, token);
        Ok(())
    }

    /// Asks another machine about a listener.
    pub(super) fn intend_elsewhere(
        &mut self,
        id: ProcessId,
        peer: Ipv4Addr,
        to: SocketAddr,
    ) -> Result<(), Refusal> {
        let (Some(outside), Some(client)) = (&mut self.outside, self.clients.get_mut(&id)) else {
            return Ok(());
        };
        let question = self.state.intend_far(id, to, peer)?;
        client.awaits = Some(Awaited::Intent(question));
        outside.intend(question, peer, to);
        Ok(())
    }

    /// Tells another machine of a connection.
    pub(super) fn announce_elsewhere(
        &mut self,
        id: ProcessId,
        intent: u64,
        ends: (SocketAddr, SocketAddr),
    ) -> Result<(), Refusal> {
        self.fetch_memory()?;
        let now = self.started.elapsed();
        let said =
            self.state
                .announce_far(&mut self.machine, now, id, self.others, intent, ends)?;
        self.announce(id, intent, said);
        Ok(())
    }

    /// Tells another machine of datagrams. The answer, if there is one already.
    pub(super) fn datagrams_elsewhere(
        &mut self,
        id: ProcessId,
        peer: Ipv4Addr,
        ends: (SocketAddr, SocketAddr),
    ) -> Result<Option<Answer<Handle>>, Refusal> {
        self.fetch_memory()?;
        let now = self.started.elapsed();
        let (machine, others) = (&mut self.machine, self.others);
        match self
            .state
            .datagrams_far(machine, now, id, others, peer, ends)?
        {
            Asked::Answered(answer) => Ok(Some(answer)),
            Asked::Announce(channel, said) => {
                self.announce(id, channel, said);
                Ok(None)
            }
        }
    }

    fn announce(&mut self, id: ProcessId, channel: u64, said: Announced) {
        if let (Some(outside), Some(client)) = (&mut self.outside, self.clients.get_mut(&id)) {
            client.awaits = Some(Awaited::Channel(channel));
            let Announced {
                peer,
                intent,
                from,
                to,
                token,
            } = said;
            let announcement = Announcement {
                channel,
                intent,
                from,
                to,
                token,
            };
            outside.announce(peer, announcement);
        }
    }

    /// Asks another machine to leave a connection to the kernel.
    pub(super) fn abandon_elsewhere(&mut self, id: ProcessId, channel: u64) -> Result<(), Refusal> {
        let (peer, theirs) = self.state.abandon(id, channel)?;
        if let (Some(outside), Some(client)) = (&mut self.outside, self.clients.get_mut(&id)) {
            client.awaits = Some(Awaited::Abandoned(channel));
            outside.abandon(peer, channel, theirs);
        }
        Ok(())
    }

    /// A connection of another machine's program to one here, or its datagrams.
    pub(super) fn announced_here(&mut self, peer: Ipv4Addr, said: Announcement) -> Option<Token> {
        let announced = Announced {
            peer,
            intent: said.intent,
            from: said.from,
            to: said.to,
            token: said.token,
        };
        let now = self.started.elapsed();
        let token = self.fetch_memory().and_then(|()| {
            let (machine, others) = (&mut self.machine, self.others);
            self.state
                .announce_here(machine, now, others, announced, said.channel)
        });
        token.unwrap_or_else(|refusal| {
            self.trace(0, &refusal.message);
            None
        })
    }

    /// Who is told of datagrams from another machine is tethered to their channel. False: it cannot be told.
    pub(super) fn tie_notice(&mut self, notice: &Notice, handles: &mut Vec<Handle>) -> bool {
        let (&Notice::FarDatagrams { channel, .. }, Some(outside)) = (notice, &mut self.outside)
        else {
            return true;
        };
        match outside.tether(channel) {
            Ok(tether) => handles.push(tether),
            Err(refusal) => {
                self.trace(0, &refusal.message);
                self.state.break_off(&mut self.machine, channel);
                return false;
            }
        }
        true
    }
}
