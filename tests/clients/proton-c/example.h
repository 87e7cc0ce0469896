/* Put before the library's examples, which connect without SASL: they log in as anonymous. */
#include <proton/connection.h>
#include <proton/proactor.h>
#include <proton/sasl.h>
#include <proton/transport.h>

static inline void connect_as_anonymous(pn_proactor_t *proactor, pn_connection_t *connection,
                                        pn_transport_t *none, const char *address) {
  (void)none;
  pn_transport_t *transport = pn_transport();
  pn_sasl_allowed_mechs(pn_sasl(transport), "ANONYMOUS");
  pn_proactor_connect2(proactor, connection, transport, address);
}

#define pn_proactor_connect2 connect_as_anonymous
