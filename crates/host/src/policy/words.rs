// SPDX-License-Identifier: Apache-2.0
//! The words of a line: between blanks, in quotes as they are, up to a comment.

/// A word of a line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Word {
    /// Without its quotes, and without a star behind it that is in none.
    pub text: String,
    /// That star.
    pub star_behind: bool,
    /// Another one that is in no quotes.
    pub stars_within: bool,
    quotes: bool,
}

impl Word {
    /// Its text, if none of it was in quotes and no star is in it.
    pub fn plain(&self) -> Option<&str> {
        let odd = self.quotes || self.star_behind || self.stars_within;
        Some(&*self.text).filter(|_| !odd)
    }

    fn push(&mut self, letter: char, in_quotes: bool) {
        if std::mem::take(&mut self.star_behind) {
            self.stars_within = true;
            self.text.push('*');
        }
        match (letter, in_quotes) {
            ('*', false) => self.star_behind = true,
            _ => self.text.push(letter),
        }
    }
}

/// The words of a line.
pub fn of(line: &str) -> Result<Vec<Word>, String> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut in_quotes = false;
    for letter in line.chars() {
        match letter {
            '"' => {
                in_quotes = !in_quotes;
                word.get_or_insert_default().quotes = true;
            }
            '#' if word.is_none() => break,
            _ if letter.is_whitespace() && !in_quotes => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter, in_quotes),
        }
    }
    if in_quotes {
        return Err("a quote has no end; write \" behind the name".to_owned());
    }
    words.extend(word);
    Ok(words)
}

/// Whether a name is another one, or none, without quotes around it.
pub fn needs_quotes(name: &str) -> bool {
    name.is_empty()
        || name.starts_with('#')
        || name.contains(|letter: char| letter.is_whitespace() || letter == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_what_has_neither_quotes_nor_stars() {
        for (line, plain) in [
            ("name", Some("name")),
            ("\"name\"", None),
            ("na\"m\"e", None),
            ("name*", None),
            ("na*me", None),
            ("*name", None),
            ("n*m*", None),
        ] {
            let words = of(line).expect("the quotes end");
            assert_eq!(words[0].plain(), plain, "{line}");
        }
    }
}
