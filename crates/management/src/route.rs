//! What a route is, and how a request finds its own.

use std::pin::Pin;

use crate::call::{Answer, Call};

/// The methods that routes have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Put,
    Post,
    Delete,
}

impl Method {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Put => "PUT",
            Method::Post => "POST",
            Method::Delete => "DELETE",
        }
    }
}

/// Who may call a route. `{vhost}` is the vhost of the route's path, `{user}` its user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anybody, without a password.
    Public,
    /// Whoever has a tag that lets it into the API.
    Management,
    /// Of those, who has permissions in `{vhost}`, and administrators; for others it doesn't exist.
    Vhost,
    /// The same, and monitors.
    VhostOrMonitor,
    /// The tag `monitoring`, or `administrator`.
    Monitor,
    /// The tag `policymaker`, or `administrator`.
    Policymaker,
    /// The tag `administrator`.
    Administrator,
    /// `{user}` itself, and monitors.
    UserOrMonitor,
    /// `{user}` itself, and administrators.
    UserOrAdministrator,
}

/// What an answer takes.
pub(crate) type Run = fn(Call) -> Pin<Box<dyn Future<Output = Answer> + Send>>;

/// See the module.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// With words in braces for what varies; a last one that begins with `*` takes the rest.
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// For people who read the API's description.
    pub(crate) summary: &'static str,
    pub(crate) run: Run,
}

/// A line of the table.
macro_rules! route {
    ($method:ident $path:literal $access:ident $handler:path, $summary:literal) => {
        $crate::route::Route {
            method: $crate::route::Method::$method,
            path: $path,
            access: $crate::route::Access::$access,
            summary: $summary,
            run: |call| Box::pin($handler(call)),
        }
    };
}
pub(crate) use route;

impl Route {
    /// The words in braces.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        let words = self.path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'));
        words.map(|word| word.trim_start_matches('*'))
    }

    /// What stands for this word in a path that matched.
    pub(crate) fn parameter<'a>(&self, name: &str, path: &'a [String]) -> Option<&'a str> {
        let at = self.parameters().position(|parameter| parameter == name)?;
        path.get(at).map(String::as_str)
    }

    /// What stands for the words in braces, if the path fits. Words are compared before they are decoded, so that a
    /// slash in a name is none between names.
    pub(crate) fn matches(&self, path: &str) -> Option<Vec<String>> {
        let mut found = Vec::new();
        let (mut ours, mut theirs) = (self.path.split('/'), path.split('/'));
        loop {
            let Some(word) = ours.next() else {
                return theirs.next().is_none().then_some(found);
            };
            if word.starts_with("{*") {
                let rest: Vec<&str> = theirs.collect();
                if rest.is_empty() {
                    return None;
                }
                found.push(decoded(&rest.join("/")));
                return Some(found);
            }
            let theirs = theirs.next()?;
            match word.starts_with('{') {
                true => found.push(decoded(theirs)),
                false if word == theirs => {}
                false => return None,
            }
        }
    }

    /// How many of its words are given: the more, the better it fits.
    pub(crate) fn rank(&self) -> usize {
        self.path.split('/').filter(|word| !word.starts_with('{')).count()
    }
}

/// A word of a path or query without its percent signs. What isn't UTF-8 then is no name of ours.
pub(crate) fn decoded(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [byte, after @ ..] = rest {
        rest = after;
        let digit = |at: usize| rest.get(at).and_then(|digit| (*digit as char).to_digit(16));
        match (byte, digit(0), digit(1)) {
            (b'%', Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &rest[2..];
            }
            _ => out.push(*byte),
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The keys of a query with their values, decoded.
pub(crate) fn query_pairs(query: &str) -> impl Iterator<Item = (String, String)> + '_ {
    query.split('&').filter(|pair| !pair.is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decoded(&key.replace('+', " ")), decoded(&value.replace('+', " ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(path: &'static str) -> Route {
        Route {
            method: Method::Get,
            path,
            access: Access::Public,
            summary: "",
            run: |_| Box::pin(async { crate::call::no_content() }),
        }
    }

    #[test]
    fn words_are_decoded_after_they_were_split() {
        let queue = route("/api/queues/{vhost}/{queue}");
        let words = |path: &str| queue.matches(path);
        assert_eq!(words("/api/queues/%2F/a%2fb%20c"), Some(vec!["/".to_owned(), "a/b c".to_owned()]));
        assert_eq!(words("/api/queues/%2F"), None);
        assert_eq!(words("/api/queues/%2F/a/b"), None);
        assert_eq!(words("/api/exchanges/%2F/a"), None);
        assert_eq!(queue.parameter("queue", &["v".to_owned(), "q".to_owned()]), Some("q"));
        assert_eq!(decoded("100%"), "100%");
    }

    #[test]
    fn the_rest_is_one_word() {
        let rest = route("/api/checks/{*protocol}");
        assert_eq!(rest.matches("/api/checks/http/prometheus"), Some(vec!["http/prometheus".to_owned()]));
        assert_eq!(rest.matches("/api/checks"), None);
        assert_eq!(rest.parameters().collect::<Vec<_>>(), ["protocol"]);
    }
}
