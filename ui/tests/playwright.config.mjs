import { defineConfig } from '@playwright/test';

export default defineConfig({
  testDir: '.',
  testMatch: '*.spec.mjs',
  outputDir: 'results',
  workers: 1,
  timeout: 60_000,
  expect: { timeout: 8000 },
  reporter: [['list']],
  globalSetup: './start.mjs',
  use: {
    browserName: 'chromium',
    viewport: { width: 1280, height: 800 },
    launchOptions: { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] },
    actionTimeout: 15_000,
    screenshot: 'only-on-failure',
  },
});
