// SPDX-License-Identifier: Apache-2.0
//! File lists (`*.f`), by the convention that `tools/filelist.py` describes; a test compares the two.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;

/// What the lists of a model name, relative to the repository root, in the order of the lists.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FileList {
    /// Sources.
    pub sources: Vec<String>,
    /// Directories for `include`.
    pub include: Vec<String>,
    lists: Vec<String>,
}

impl FileList {
    /// Merges lists and single sources; what comes again is left out.
    pub fn merge(root: &Path, entries: &[&str]) -> Result<Self, Error> {
        let mut merged = Self::default();
        for entry in entries {
            if entry.ends_with(".f") {
                merged.read(root, entry)?;
            } else {
                merged.add(root, entry, entry)?;
            }
        }
        Ok(merged)
    }

    /// Leaves out the sources that a top does not contain: no module or package in them is named by it, nor by what it
    /// names. A source that declares neither stays.
    pub fn contained(mut self, root: &Path, top: &str) -> Result<Self, Error> {
        let mut words = Vec::new();
        let mut declared = BTreeMap::<String, Vec<usize>>::new();
        let mut todo = Vec::new();
        for (index, source) in self.sources.iter().enumerate() {
            let path = root.join(source);
            let text =
                fs::read_to_string(&path).map_err(|error| Error::unreadable(&path, error))?;
            let text = without_comments(&text);
            let found = declarations(&text);
            if found.is_empty() {
                todo.push(index);
            }
            for name in found {
                declared.entry(name.to_owned()).or_default().push(index);
            }
            words.push(
                self::words(&text)
                    .map(str::to_owned)
                    .collect::<BTreeSet<_>>(),
            );
        }
        let Some(first) = declared.get(top) else {
            // Whoever builds it will say that there is no such top.
            return Ok(self);
        };
        todo.extend(first);
        let mut contained = BTreeSet::new();
        while let Some(index) = todo.pop() {
            if contained.insert(index) {
                let named = words[index].iter().filter_map(|word| declared.get(word));
                todo.extend(named.flatten());
            }
        }
        let mut index = 0;
        self.sources.retain(|_| {
            index += 1;
            contained.contains(&(index - 1))
        });
        Ok(self)
    }

    /// Every file that a build reads: sources, and all files of the directories for `include`.
    pub fn inputs(&self, root: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut inputs: Vec<_> = self.sources.iter().map(PathBuf::from).collect();
        for folder in &self.include {
            let path = root.join(folder);
            let entries = fs::read_dir(&path).map_err(|error| Error::unreadable(&path, error))?;
            let mut files: Vec<_> = entries
                .flatten()
                .filter(|entry| entry.path().is_file())
                .map(|entry| Path::new(folder).join(entry.file_name()))
                .collect();
            files.sort();
            inputs.append(&mut files);
        }
        Ok(inputs)
    }

    fn read(&mut self, root: &Path, name: &str) -> Result<(), Error> {
        if self.lists.iter().any(|list| list == name) {
            return Ok(());
        }
        self.lists.push(name.to_owned());
        let path = root.join(name);
        let text = fs::read_to_string(&path).map_err(|error| Error::unreadable(&path, error))?;
        for (number, line) in text.lines().enumerate() {
            let line = line.split("//").next().unwrap_or_default();
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let place = format!("{name}:{}", number + 1);
            if let Some(list) = line.strip_prefix("-f") {
                self.read(root, list.trim())?;
            } else if let Some(folder) = line.strip_prefix("+incdir+") {
                if !self.include.iter().any(|known| known == folder) {
                    self.include.push(folder.to_owned());
                }
            } else if line.starts_with(['-', '+']) {
                return Err(Error::FileList {
                    place,
                    reason: format!("option {line} is not part of the convention"),
                });
            } else {
                self.add(root, line, &place)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, root: &Path, source: &str, place: &str) -> Result<(), Error> {
        if !root.join(source).is_file() {
            return Err(Error::FileList {
                place: place.to_owned(),
                reason: format!("{source} does not exist"),
            });
        }
        if !self.sources.iter().any(|known| known == source) {
            self.sources.push(source.to_owned());
        }
        Ok(())
    }
}

/// The text with a space for each comment.
fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("/*").into_iter().chain(rest.find("//")).min() {
        out += &rest[..at];
        out.push(' ');
        let end = if rest[at..].starts_with("//") {
            rest[at..].find('\n')
        } else {
            rest[at + 2..].find("*/").map(|end| end + 4)
        };
        rest = end.map_or("", |end| &rest[at + end..]);
    }
    out + rest
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '$')
        .filter(|word| !word.is_empty())
}

/// Modules, packages and interfaces that a source declares.
fn declarations(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut words = words(text);
    while let Some(word) = words.next() {
        if ["module", "package", "interface"].contains(&word) {
            let name = words.find(|word| !["automatic", "static"].contains(word));
            found.extend(name);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_name_nothing() {
        let text = "a /* b // c\n*/ d // e /* f\ng // h";
        let text = without_comments(text);
        assert_eq!(words(&text).collect::<Vec<_>>(), ["a", "d", "g"]);
        assert_eq!(without_comments("x /* never ends"), "x  ");
    }

    #[test]
    fn declarations_are_found() {
        let text = "package automatic p; endpackage module m #(int N = 1) (); endmodule : m";
        assert_eq!(declarations(text), ["p", "m"]);
    }
}
