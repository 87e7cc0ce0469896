//! What a route is, and how a request finds its own.

use std::pin::Pin;

use crate::call::{Answer, Call};
use crate::percent::{NotText, decoded};

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
    ///
    /// # Errors
    /// A word is no name.
    pub(crate) fn matches(&self, path: &str) -> Option<Result<Vec<String>, NotText>> {
        let mut found = Vec::new();
        let (mut ours, mut theirs) = (self.path.split('/'), path.split('/'));
        loop {
            let Some(word) = ours.next() else {
                let decode = || found.into_iter().map(|word: String| decoded(&word)).collect();
                return theirs.next().is_none().then(decode);
            };
            if word.starts_with("{*") {
                let rest: Vec<&str> = theirs.collect();
                if rest.is_empty() {
                    return None;
                }
                found.push(rest.join("/"));
                return Some(found.iter().map(|word| decoded(word)).collect());
            }
            let theirs = theirs.next()?;
            match word.starts_with('{') {
                true => found.push(theirs.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::percent::query_pairs;

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
        assert_eq!(words("/api/queues/%2F/a%2fb%20c"), Some(Ok(vec!["/".to_owned(), "a/b c".to_owned()])));
        assert_eq!(words("/api/queues/%2F"), None);
        assert_eq!(words("/api/queues/%2F/a/b"), None);
        assert_eq!(words("/api/exchanges/%2F/a"), None);
        assert_eq!(queue.parameter("queue", &["v".to_owned(), "q".to_owned()]), Some("q"));
    }

    #[test]
    fn a_word_that_is_no_text_is_no_name() {
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
    fn the_rest_is_one_word() {
        let rest = route("/api/checks/{*protocol}");
        assert_eq!(rest.matches("/api/checks/http/prometheus"), Some(Ok(vec!["http/prometheus".to_owned()])));
        assert_eq!(rest.matches("/api/checks"), None);
        assert_eq!(rest.parameters().collect::<Vec<_>>(), ["protocol"]);
    }
}
