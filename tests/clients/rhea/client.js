// The AMQP 1.0 scenarios of the client table, with rhea. See tests/clients/AMQP10.md.
'use strict';

const { scenario } = require('./session');

const areas = ['connecting', 'sending', 'content', 'receiving', 'replies', 'conversion', 'management', 'errors'];

(async () => {
  try {
    const area = areas.map((name) => require(`./${name}`)).find((scenarios) => scenario in scenarios);
    await area[scenario]();
    console.log(`ok ${scenario}`);
    process.exit(0);
  } catch (failure) {
    console.error(failure.stack);
    console.log(`fail ${scenario}: ${failure.message}`.replaceAll('\n', ' '));
    process.exit(1);
  }
})();
