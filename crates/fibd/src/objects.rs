// SPDX-License-Identifier: Apache-2.0
//! Next-hop objects. Each knows the groups that it is in, and [`Paths`](crate::paths::Paths) which routes go by it: one that
//! changes among ten thousand is no matter of looking at them all.

use std::collections::{HashMap, HashSet};

use crate::message::{Hop, ObjectMessage};
use crate::state::{Source, State};

/// An object: who told of it, and its number. Numbers of the kernel and of a daemon are not the same ones.
pub type ObjectKey = (Source, u32);

#[derive(Clone, Debug)]
pub(crate) enum Object {
    Hop(Hop),
    Blackhole,
    Group(Vec<(u32, u16)>),
}

impl Object {
    fn members(&self) -> &[(u32, u16)] {
        match self {
            Self::Group(members) => members,
            _ => &[],
        }
    }
}

/// Objects by key.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    known: HashMap<ObjectKey, Object>,
    /// The groups that have an object of this key as a member, whether there is one or not.
    groups: HashMap<ObjectKey, HashSet<ObjectKey>>,
}

impl Objects {
    pub(crate) fn get(&self, key: &ObjectKey) -> Option<&Object> {
        self.known.get(key)
    }

    pub(crate) fn contains_key(&self, key: &ObjectKey) -> bool {
        self.known.contains_key(key)
    }

    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = ObjectKey> {
        self.known.keys().copied()
    }

    /// The groups that an object is in.
    fn groups(&self, key: ObjectKey) -> Vec<ObjectKey> {
        let groups = self.groups.get(&key).into_iter().flatten();
        groups.copied().collect()
    }

    fn insert(&mut self, key: ObjectKey, object: Object) {
        self.remove(key);
        for (id, _) in object.members() {
            self.groups.entry((key.0, *id)).or_default().insert(key);
        }
        self.known.insert(key, object);
    }

    /// Whether it was there.
    fn remove(&mut self, key: ObjectKey) -> bool {
        let Some(object) = self.known.remove(&key) else {
            return false;
        };
        for (id, _) in object.members() {
            self.leave(key, *id);
        }
        true
    }

    fn leave(&mut self, group: ObjectKey, member: u32) {
        let member = (group.0, member);
        if let Some(groups) = self.groups.get_mut(&member) {
            groups.remove(&group);
            if groups.is_empty() {
                self.groups.remove(&member);
            }
        }
    }

    /// Takes a member out of a group; whether it was the last.
    fn expel(&mut self, group: ObjectKey, member: u32) -> bool {
        self.leave(group, member);
        let Some(Object::Group(members)) = self.known.get_mut(&group) else {
            return false;
        };
        members.retain(|(id, _)| *id != member);
        members.is_empty()
    }
}

impl State {
    /// How many next-hop objects there are.
    pub fn object_count(&self) -> usize {
        self.objects.len()
    }

    pub(crate) fn object(&mut self, key: ObjectKey, object: ObjectMessage) {
        if let (Some(seen), Source::Kernel) = (&mut self.seen, key.0) {
            seen.objects.insert(key.1);
        }
        let object = match object {
            ObjectMessage::Hop(hop) => Object::Hop(hop),
            ObjectMessage::Blackhole => Object::Blackhole,
            ObjectMessage::Group(members) => Object::Group(members),
        };
        self.objects.insert(key, object);
        self.touch_object(key);
    }

    pub(crate) fn object_gone(&mut self, key: ObjectKey) {
        if !self.objects.remove(key) {
            return;
        }
        self.doubt_sourced();
        self.doom_object(key);
        for group in self.objects.groups(key) {
            // One that loses its last member goes, too.
            match self.objects.expel(group, key.1) {
                true => {
                    self.objects.remove(group);
                    self.doom_object(group);
                }
                false => self.dirty_paths.extend(self.paths.by(group)),
            }
        }
    }

    /// The routes of an object are gone.
    fn doom_object(&mut self, key: ObjectKey) {
        let with = self.paths.by(key).to_vec();
        self.doom(&with);
    }

    /// Objects at a device that lost its carrier or went down.
    pub(crate) fn flush_objects(&mut self, device: u32) {
        let at = self.objects.known.iter();
        let at = at.filter_map(|(key, object)| match object {
            Object::Hop(hop) if hop.device == device && key.0 == Source::Kernel => Some(*key),
            _ => None,
        });
        for key in at.collect::<Vec<_>>() {
            self.object_gone(key);
        }
    }

    fn touch_object(&mut self, key: ObjectKey) {
        self.dirty_paths.extend(self.paths.by(key));
        for group in self.objects.groups(key) {
            self.dirty_paths.extend(self.paths.by(group));
        }
    }

    /// An object's next hops with their weights; none for one that drops.
    pub(crate) fn members(&self, key: ObjectKey) -> Vec<(Option<Hop>, u16)> {
        let Some(object) = self.objects.get(&key) else {
            return Vec::new();
        };
        let Object::Group(members) = object else {
            return single(object, 1).into_iter().collect();
        };
        let each = members.iter().filter_map(|(id, weight)| {
            let member = self.objects.get(&(key.0, *id))?;
            single(member, *weight)
        });
        each.collect()
    }
}

/// The next hop that an object is. The kernel forbids groups in groups; a daemon's mistake must not lead round in circles.
fn single(object: &Object, weight: u16) -> Option<(Option<Hop>, u16)> {
    match object {
        Object::Hop(hop) => Some((Some(*hop), weight)),
        Object::Blackhole => Some((None, weight)),
        Object::Group(_) => None,
    }
}
