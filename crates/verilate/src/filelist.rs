// SPDX-License-Identifier: Apache-2.0
//! File lists (`*.f`), by the convention that `tools/filelist.py` describes; a test compares the two.

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
