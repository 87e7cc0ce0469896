//! Routes, and matching of requests.

use std::pin::Pin;

use crate::call::{Call, HandlerResult};
use crate::percent::{NotText, name};

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

/// The access rule of a route. `{vhost}` and `{user}` are parameters of the route's path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// Anyone, without authentication.
    Public,
    /// Users with a tag that gives access to the API.
    Management,
    /// Such users with permissions in `{vhost}`, and administrators; for others it doesn't exist.
    Vhost,
    /// As `Vhost`, and monitors.
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

/// The type of handlers.
pub(crate) type Handler = fn(Call) -> Handled;

/// A request that is being handled.
pub(crate) type Handled = Pin<Box<dyn Future<Output = HandlerResult> + Send>>;

/// A route.
pub(crate) struct Route {
    pub(crate) method: Method,
    /// Its path, with parameters in braces; a last parameter that begins with `*` matches the rest.
    pub(crate) path: &'static str,
    /// Bytes of the path before its first parameter, see [`literal_length`].
    pub(crate) literal: usize,
    pub(crate) access: Access,
    /// A summary for the API's description.
    pub(crate) summary: &'static str,
    pub(crate) run: Handler,
}

/// A row of the table.
macro_rules! route {
    ($method:ident $path:literal $access:ident $handler:path, $summary:literal) => {
        $crate::route::Route {
            method: $crate::route::Method::$method,
            path: $path,
            literal: const { $crate::route::literal_length($path) },
            access: $crate::route::Access::$access,
            summary: $summary,
            run: |call| Box::pin($handler(call)),
        }
    };
}
pub(crate) use route;

/// Bytes of a route's path before its first parameter: a request's path begins with these, or doesn't match.
pub(crate) const fn literal_length(path: &str) -> usize {
    let bytes = path.as_bytes();
    let mut at = 0;
    while at < bytes.len() && bytes[at] != b'{' {
        at += 1;
    }
    at
}

impl Route {
    /// The names of the path's parameters.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static str> {
        let words = self.path.split('/').filter_map(|word| word.strip_prefix('{')?.strip_suffix('}'));
        words.map(|word| word.trim_start_matches('*'))
    }

    /// The value of this parameter in a path that matched.
    pub(crate) fn parameter<'a>(&self, name: &str, path: &'a [String]) -> Option<&'a str> {
        let at = self.parameters().position(|parameter| parameter == name)?;
        path.get(at).map(String::as_str)
    }

    /// The values of the parameters, if the path matches. Segments are compared before they are decoded, so that a
    /// slash within a name doesn't separate segments.
    ///
    /// # Errors
    /// A segment can't be decoded.
    pub(crate) fn matches(&self, path: &str) -> Option<Result<Vec<String>, NotText>> {
        // Nearly all of some two hundred routes differ here already.
        if !path.as_bytes().starts_with(&self.path.as_bytes()[..self.literal]) {
            return None;
        }
        let mut found = Vec::new();
        let (mut ours, mut theirs) = (self.path.split('/'), path.split('/'));
        loop {
            let Some(word) = ours.next() else {
                let decode = || found.into_iter().map(|word: String| name(&word)).collect();
                return theirs.next().is_none().then(decode);
            };
            if word.starts_with("{*") {
                let rest: Vec<&str> = theirs.collect();
                if rest.is_empty() {
                    return None;
                }
                found.push(rest.join("/"));
                return Some(found.iter().map(|word| name(word)).collect());
            }
            let theirs = theirs.next()?;
            match word.starts_with('{') {
                true => found.push(theirs.to_owned()),
                false if word == theirs => {}
                false => return None,
            }
        }
    }

    /// Number of literal segments: the route with the most of them is the best match.
    pub(crate) fn rank(&self) -> usize {
        self.path.split('/').filter(|word| !word.starts_with('{')).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percent::{decoded, query_pairs};

    fn route(path: &'static str) -> Route {
        Route {
            method: Method::Get,
            path,
            literal: literal_length(path),
            access: Access::Public,
            summary: "",
            run: |_| Box::pin(async { crate::call::no_content() }),
        }
    }

    #[test]
    fn segments_are_decoded_after_they_were_split() {
        let queue = route("/api/queues/{vhost}/{queue}");
        let words = |path: &str| queue.matches(path);
        assert_eq!(words("/api/queues/%2F/a%2fb%20c"), Some(Ok(vec!["/".to_owned(), "a/b c".to_owned()])));
        assert_eq!(words("/api/queues/%2F"), None);
        assert_eq!(words("/api/queues/%2F/a/b"), None);
        assert_eq!(words("/api/exchanges/%2F/a"), None);
        assert_eq!(queue.parameter("queue", &["v".to_owned(), "q".to_owned()]), Some("q"));
        for (segment, name) in [(";=", ""), (";=..", ".."), (";=%2e", "."), ("%3B=..", ";=.."), (";=;=", ";=")] {
            let expected = Some(Ok(vec!["/".to_owned(), name.to_owned()]));
            assert_eq!(words(&format!("/api/queues/%2F/{segment}")), expected);
        }
        let list = route("/api/queues/detailed");
        assert!(list.matches("/api/queues/detailed").is_some() && list.matches("/api/queues/;=detailed").is_none());
    }

    #[test]
    fn a_segment_that_cannot_be_decoded_is_no_name() {
        let queue = route("/api/queues/{vhost}/{queue}");
        assert_eq!(decoded("100%25"), Ok("100%".to_owned()));
        for word in ["100%", "%zz", "%2", "a%+1"] {
            assert_eq!(decoded(word), Err(NotText::Escape(word.to_owned())));
            assert!(queue.matches(&format!("/api/queues/%2F/{word}")).is_some_and(|words| words.is_err()));
        }
        for word in ["u%ff", "%fe%20", "%C3"] {
            assert_eq!(decoded(word), Err(NotText::Encoding(word.to_owned())));
        }
        assert_eq!(decoded("%C3%A4"), Ok("ä".to_owned()));
        let pairs: Result<Vec<_>, _> = query_pairs("a=b&c=%ff").collect();
        assert!(pairs.is_err());
        assert_eq!(query_pairs("a+b=%2B").collect::<Result<Vec<_>, _>>(), Ok(vec![("a b".to_owned(), "+".to_owned())]));
    }

    #[test]
    fn a_rest_parameter_is_one_value() {
        let rest = route("/api/checks/{*protocol}");
        assert_eq!(rest.matches("/api/checks/http/prometheus"), Some(Ok(vec!["http/prometheus".to_owned()])));
        assert_eq!(rest.matches("/api/checks"), None);
        assert_eq!(rest.parameters().collect::<Vec<_>>(), ["protocol"]);
    }
}
