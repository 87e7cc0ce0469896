//! The common part of the commands for permissions and for topic permissions.

use super::{listed, users, vhosts};
use crate::answer::CommandOutput;
use crate::call::Call;
use crate::client::{NodeClient, word};
use crate::failure::Failure;

/// Permissions or topic permissions.
pub(super) struct Granted {
    /// Their segment in paths of the HTTP API.
    pub(super) path: &'static str,
    /// Their name in RabbitMQ's texts.
    pub(super) called: &'static str,
    /// The columns shown besides user or vhost.
    pub(super) columns: [&'static str; 3],
}

impl Granted {
    /// Path of a user's permissions in a vhost.
    pub(super) fn of(&self, vhost: &str, user: &str) -> String {
        format!("/api/{}/{}/{}", self.path, word(vhost), word(user))
    }

    /// The node, and the path of the user's permissions, once the message with `{user}` and `{vhost}` filled in is said. To clear what
    /// isn't there is no error in RabbitMQ, whether there is such a user and vhost or not.
    pub(super) fn announce(&self, call: &mut Call<'_>, text: &str) -> Result<(NodeClient, String), Failure> {
        let (vhost, user) = (call.vhost(), call.word("username").to_owned());
        let node = call.node()?;
        let filled = text.replace("{called}", self.called).replace("{vhost}", &vhost);
        call.say(&filled.replace("{user}", &user));
        let path = self.of(&vhost, &user);
        Ok((node, path))
    }

    /// As [`Granted::announce`], if user and vhost exist.
    pub(super) fn begin(&self, call: &mut Call<'_>, text: &str) -> Result<(NodeClient, String), Failure> {
        let (node, path) = self.announce(call, text)?;
        let (vhost, user) = (call.vhost(), call.word("username"));
        if !users::exists(&node, user)? {
            return Err(Failure::no_user_for_permissions(user));
        }
        if !vhosts::exists(&node, &vhost)? {
            return Err(Failure::check(&format!("Virtual host {vhost} does not exist")));
        }
        Ok((node, path))
    }

    /// Lists the permissions in a vhost.
    pub(super) fn list(&self, call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
        let vhost = call.vhost();
        let node = call.node()?;
        call.say(&format!("Listing {} for vhost \"{vhost}\" ...", self.called));
        vhosts::check(&node, &vhost)?;
        let found = node.list(&format!("/api/vhosts/{}/{}", word(&vhost), self.path))?;
        Ok(listed::rows(&self.beside("user"), found, |_| {}))
    }

    /// Lists the permissions of a user.
    pub(super) fn list_of_user(&self, call: &mut Call<'_>) -> Result<CommandOutput, Failure> {
        let user = call.word("username").to_owned();
        let node = call.node()?;
        call.say(&format!("Listing {} for user \"{user}\" ...", self.called));
        users::look_up(&node, &user)?;
        let found = node.list(&format!("{}/{}", users::path(&user), self.path))?;
        Ok(listed::rows(&self.beside("vhost"), found, |_| {}))
    }

    fn beside(&self, first: &str) -> Vec<String> {
        std::iter::once(first).chain(self.columns).map(str::to_owned).collect()
    }
}
