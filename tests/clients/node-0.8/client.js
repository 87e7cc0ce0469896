// The same scenarios with the amqplib beside this file, which many applications still have.
'use strict';

require('../node/client.js');
