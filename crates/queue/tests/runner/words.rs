//! The words of one step: a command, its arguments, and options as `key=value` or as a single word.

pub(crate) struct Words<'a> {
    left: Vec<&'a str>,
}

impl<'a> Words<'a> {
    /// The command, and the rest.
    pub(crate) fn split(step: &'a str) -> (&'a str, Self) {
        let mut words = step.split_whitespace();
        let command = words.next().unwrap_or_default();
        (command, Self { left: words.collect() })
    }

    /// Removes an option and returns its value.
    pub(crate) fn option(&mut self, key: &str) -> Option<&'a str> {
        let value = |word: &&'a str| word.strip_prefix(key).and_then(|rest| rest.strip_prefix('='));
        let at = self.left.iter().position(|word| value(word).is_some())?;
        value(&self.left.remove(at))
    }

    /// Removes an option whose value is a number, and returns it.
    pub(crate) fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        self.option(key).map(number).transpose()
    }

    /// Removes a flag; returns whether it was present.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let at = self.left.iter().position(|word| *word == name);
        at.map(|at| self.left.remove(at)).is_some()
    }

    /// Removes options whose keys begin with this prefix.
    pub(crate) fn options(&mut self, prefix: &str) -> Vec<(&'a str, &'a str)> {
        let (options, left) = self.left.iter().partition(|word| word.starts_with(prefix));
        self.left = left;
        let options: Vec<&str> = options;
        options.into_iter().filter_map(|word| word.split_once('=')).collect()
    }

    /// Removes the first word.
    pub(crate) fn next(&mut self, what: &str) -> Result<&'a str, String> {
        if self.left.is_empty() { Err(format!("{what} is missing")) } else { Ok(self.left.remove(0)) }
    }

    /// All remaining words, which have to be names.
    pub(crate) fn names(self) -> Result<Vec<&'a str>, String> {
        match self.left.iter().find(|word| word.contains('=')) {
            Some(word) => Err(format!("`{}` isn't asked for", word.split('=').next().unwrap_or_default())),
            None => Ok(self.left),
        }
    }

    /// # Errors
    /// Words are left.
    pub(crate) fn end(self) -> Result<(), String> {
        self.left.first().map_or(Ok(()), |word| Err(format!("`{word}` isn't asked for")))
    }
}

pub(crate) fn number(word: &str) -> Result<u64, String> {
    word.parse().map_err(|_| format!("`{word}` isn't a number"))
}
