// SPDX-License-Identifier: Apache-2.0
//! What routes have in common, kept once: a million routes lead over a few hundred paths.

use std::collections::HashMap;
use std::net::IpAddr;

use crate::message::{Hop, RouteKind};
use crate::objects::ObjectKey;
use crate::terms::Terms;

/// Where a path leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Via {
    /// By next hops of its own.
    Hops(Vec<Hop>),
    /// By an object.
    Object(ObjectKey),
}

impl Via {
    /// Next hops of its own.
    pub fn hops(&self) -> &[Hop] {
        match self {
            Self::Hops(hops) => hops,
            Self::Object(_) => &[],
        }
    }
}

/// All of a route but its destination and its rank.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Path {
    /// IPv6.
    pub six: bool,
    /// What it does.
    pub kind: RouteKind,
    /// By what.
    pub via: Via,
    /// Preferred source address.
    pub source: Option<IpAddr>,
    /// Preference and longest packet, unless its next hops have their own.
    pub terms: Terms,
    /// Of IPv4: what else the kernel tells its routes from others by.
    pub identity: u64,
    /// Its routes are between next hops of another of IPv6, where the kernel forgets them when their device goes down: they
    /// stay, and what they get is lost.
    pub between: bool,
}

impl Path {
    /// Whether they differ at most in which next hops are dead, and in the terms of these.
    pub fn is_alike(&self, other: &Self) -> bool {
        let hop = |hop: &Hop| (hop.device, hop.gateway, hop.weight);
        let via = match (&self.via, &other.via) {
            (Via::Hops(one), Via::Hops(other)) => one.iter().map(hop).eq(other.iter().map(hop)),
            (one, other) => one == other,
        };
        let rest = |path: &Self| {
            let fixed = (path.six, path.kind, path.identity);
            (fixed, path.source, path.terms, path.between)
        };
        via && rest(self) == rest(other)
    }
}

#[derive(Clone, Debug)]
struct Entry {
    path: Path,
    users: u32,
    doomed: bool,
    /// Devices whose last IPv4 address went: next hops there are dead until the device has one or goes up.
    dead: Vec<u32>,
}

/// Paths by number.
#[derive(Clone, Debug, Default)]
pub struct Paths {
    entries: Vec<Option<Entry>>,
    numbers: HashMap<Path, u32>,
    free: Vec<u32>,
    /// Those that go by an object and are not doomed.
    by: HashMap<ObjectKey, Vec<u32>>,
}

impl Paths {
    /// The number of a path, with one user more.
    pub fn hold(&mut self, path: Path) -> u32 {
        if let Some(&number) = self.numbers.get(&path) {
            self.hold_again(number);
            return number;
        }
        let entry = Some(Entry {
            path: path.clone(),
            users: 1,
            doomed: false,
            dead: Vec::new(),
        });
        let number = self.free.pop().unwrap_or(self.entries.len() as u32);
        match self.entries.get_mut(number as usize) {
            Some(place) => *place = entry,
            None => self.entries.push(entry),
        }
        if let Via::Object(key) = path.via {
            self.by.entry(key).or_default().push(number);
        }
        self.numbers.insert(path, number);
        number
    }

    /// One user less.
    pub fn release(&mut self, number: u32) {
        let Some(place) = self.entries.get_mut(number as usize) else {
            return;
        };
        let Some(entry) = place else { return };
        entry.users -= 1;
        if entry.users == 0 {
            // Two that became equal have one number that is found.
            if !entry.doomed {
                if self.numbers.get(&entry.path) == Some(&number) {
                    self.numbers.remove(&entry.path);
                }
                forget(&mut self.by, &entry.path, number);
            }
            *place = None;
            self.free.push(number);
        }
    }

    /// A path; none if its routes are gone already, and only have to be found.
    pub fn get(&self, number: u32) -> Option<&Path> {
        let entry = self.entries.get(number as usize)?.as_ref()?;
        (!entry.doomed).then_some(&entry.path)
    }

    /// Whether its routes are gone.
    pub fn is_doomed(&self, number: u32) -> bool {
        self.get(number).is_none()
    }

    /// All routes of a path are gone; one that comes later has a path of its own.
    pub fn doom(&mut self, number: u32) -> u32 {
        match self.entries.get_mut(number as usize) {
            Some(Some(entry)) if !entry.doomed => {
                entry.doomed = true;
                if self.numbers.get(&entry.path) == Some(&number) {
                    self.numbers.remove(&entry.path);
                }
                forget(&mut self.by, &entry.path, number);
                entry.users
            }
            _ => 0,
        }
    }

    /// Those that go by an object and are not doomed.
    pub fn by(&self, object: ObjectKey) -> &[u32] {
        self.by.get(&object).map_or(&[], Vec::as_slice)
    }

    /// Devices at which the next hops of a path are dead.
    pub fn dead(&self, number: u32) -> &[u32] {
        let entry = self.entries.get(number as usize).and_then(Option::as_ref);
        entry.map_or(&[], |entry| entry.dead.as_slice())
    }

    /// The next hops of a path at a device are dead, or not any more; whether that is news.
    pub fn set_dead(&mut self, number: u32, device: u32, dead: bool) -> bool {
        let Some(Some(entry)) = self.entries.get_mut(number as usize) else {
            return false;
        };
        let before = entry.dead.len();
        entry.dead.retain(|other| *other != device);
        if dead {
            entry.dead.push(device);
        }
        before != entry.dead.len()
    }

    /// Whether two numbers are of paths that differ at most in which next hops are dead, and in the terms of
    /// these.
    pub fn alike(&self, one: u32, other: u32) -> bool {
        one == other
            || matches!((self.get(one), self.get(other)), (Some(one), Some(other)) if one.is_alike(other))
    }

    /// One user more of a path that has some.
    pub fn hold_again(&mut self, number: u32) {
        if let Some(Some(entry)) = self.entries.get_mut(number as usize) {
            entry.users += 1;
        }
    }

    /// The IPv6 next hops of routes at a device are dead, or not any more; those of routes between next hops of another
    /// stay as they are. Returns the paths for which that is news.
    pub fn set_hops_dead(&mut self, device: u32, dead: bool) -> Vec<u32> {
        let mut changed = Vec::new();
        let news = |hop: &Hop| hop.device == device && hop.dead != dead;
        for (number, entry) in (0..).zip(&mut self.entries) {
            let Some(entry) = entry.as_mut().filter(|entry| !entry.doomed) else {
                continue;
            };
            let path = &mut entry.path;
            if !path.six || path.between || !path.via.hops().iter().any(news) {
                continue;
            }
            if self.numbers.get(path) == Some(&number) {
                self.numbers.remove(path);
            }
            if let Via::Hops(hops) = &mut path.via {
                let here = hops.iter_mut().filter(|hop| hop.device == device);
                here.for_each(|hop| hop.dead = dead);
            }
            self.numbers.entry(path.clone()).or_insert(number);
            changed.push(number);
        }
        changed
    }

    /// The paths that are not doomed, with their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u32, &Path)> {
        self.entries
            .iter()
            .enumerate()
            .filter_map(|(number, entry)| {
                let entry = entry.as_ref().filter(|entry| !entry.doomed)?;
                Some((number as u32, &entry.path))
            })
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.entries.len() - self.free.len()
    }
}

/// A path goes by its object no longer.
fn forget(by: &mut HashMap<ObjectKey, Vec<u32>>, path: &Path, number: u32) {
    let Via::Object(key) = path.via else { return };
    if let Some(numbers) = by.get_mut(&key) {
        numbers.retain(|other| *other != number);
        if numbers.is_empty() {
            by.remove(&key);
        }
    }
}
