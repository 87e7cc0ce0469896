use crate::composite::composite;
use crate::{DeliveryState, Role};

composite! {
    /// Tells the state of deliveries (2.7.6).
    Disposition['a] = DISPOSITION, "disposition" {
        /// Which end of these deliveries' links its sender is.
        role "role": mandatory Role,
        /// The first delivery-id.
        first "first": mandatory u32,
        /// The last one; `None` for `first` alone.
        last "last": optional u32,
        /// Whether its sender settled them.
        settled "settled": default bool = false,
        /// Their state.
        state "state": optional DeliveryState<'a>,
        /// The receiver may answer later together with others.
        batchable "batchable": default bool = false,
    }
}
