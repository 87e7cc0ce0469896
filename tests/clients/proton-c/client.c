/* The AMQP 1.0 scenarios of the client table, with proton's C library. See tests/clients/AMQP10.md. */
#include "session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv) {
  setup(argc, argv);
  const entry_t *areas[] = {CONNECTING, SENDING, RECEIVING, REPLIES, ERRORS};
  for (size_t area = 0; area < sizeof areas / sizeof *areas; area++) {
    for (const entry_t *entry = areas[area]; entry->name; entry++) {
      if (strcmp(entry->name, scenario) == 0) {
        entry->run();
        printf("ok %s\n", scenario);
        fflush(stdout);
        _exit(0);
      }
    }
  }
  fail("no such scenario");
}
