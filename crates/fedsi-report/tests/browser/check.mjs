// Opens pages of runs and comparisons in a real browser: nothing complains, nothing is fetched, nothing sticks out,
// tables sort, and choosing a client changes its pictures. Usage: node check.mjs BROWSER PAGE...
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const [executablePath, ...pages] = process.argv.slice(2);
assert.ok(executablePath && pages.length, "usage: node check.mjs BROWSER PAGE...");

const live = (page) => page.locator("svg[data-panels]").evaluateAll((all) => all.map((svg) => ({
  name: svg.dataset.plot,
  drawn: svg.querySelector(".chosen").innerHTML,
  title: svg.querySelector("title").textContent,
})));

/** The page at one width, in one colour scheme. */
async function check(browser, path, width, colorScheme) {
  const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
  const complaints = [];
  page.on("console", (message) => message.type() === "error" && complaints.push(message.text()));
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("request", (request) => /^(file|data):/.test(request.url()) || complaints.push(`asks for ${request.url()}`));
  await page.goto(pathToFileURL(path).href);

  const fits = async (when) => {
    const widest = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(widest <= width, `${path} is ${widest} wide on a screen of ${width}, ${when}`);
  };
  await fits("as it opens");
  for (const { name, title } of await live(page)) assert.ok(title.length > 20, `${name} has no words for those who do not see it`);

  // The table sorts by a column, both ways: clients of a run, methods of a comparison.
  const isRun = (await page.locator("#clients").count()) > 0;
  const [table, place] = isRun ? ["#clients", 2] : ["#methods", 1];
  const column = () => page.locator(`${table} tbody tr td:nth-child(${place + 1})`).evaluateAll((cells) =>
    cells.map((cell) => parseFloat(cell.textContent)).filter((value) => !Number.isNaN(value)));
  const heading = page.locator(`${table} thead th`).nth(place);
  for (const [direction, sign] of [["descending", -1], ["ascending", 1]]) {
    await heading.locator("button").click();
    assert.equal(await heading.getAttribute("aria-sort"), direction);
    const values = await column();
    assert.deepEqual(values, [...values].sort((a, b) => sign * (a - b)), `not sorted, ${direction}`);
  }
  if (!isRun) {
    await page.locator(`${table} thead th`).first().locator("button").click();
    const names = await page.locator(`${table} tbody th`).allTextContents();
    assert.deepEqual(names, [...names].sort((a, b) => b.localeCompare(a)), "names are not sorted");
    const plots = await page.locator("svg[data-plot] title").allTextContents();
    assert.ok(plots.length > 3 && plots.every((title) => title.length > 20), "a plot has no words for those who do not see it");
  }

  // Choosing clients: the plots, the heading, the row and the samples follow; all clients come back.
  if (isRun) await choosing(page, fits);
  assert.deepEqual(complaints, [], path);
  await page.close();
}

/** Chooses clients of a run, one after another. */
async function choosing(page, fits) {
  const clients = await page.locator("#client option").evaluateAll((all) => all.map((option) => option.value).filter(Boolean));
  assert.equal(await page.locator(".chooser").isVisible(), clients.length > 1, "the chooser");
  if (clients.length > 1) {
    const before = await live(page);
    assert.ok(before.every((plot) => plot.drawn === ""), "a client is shown before one is chosen");
    const [seen, seenCards] = [new Set(), new Set()];
    for (const client of clients.slice(0, 3)) {
      await page.selectOption("#client", client);
      const now = await live(page);
      const scores = await page.locator("#scores").textContent();
      assert.ok(scores.length > 5, "no scores of the client");
      assert.equal(await page.locator("#clients tbody tr.one").getAttribute("data-client"), client);
      if (!scores.startsWith("no ")) assert.ok(now.every((plot) => plot.drawn.length > 20), `client ${client} is not drawn`);
      assert.ok(!now.some((plot) => plot.drawn.includes("NaN")), `client ${client} is drawn nowhere`);
      // Samples are kept of each client where there are few.
      const own = page.locator("#cards-client");
      if ((await own.count()) && clients.length <= 40 && !scores.startsWith("no ")) {
        assert.ok(await own.isVisible() && !(await page.locator("#cards-all").isVisible()), "samples do not follow");
        assert.ok((await own.locator(".card").count()) > 0, "no samples of the client");
        seenCards.add(await own.innerHTML());
      }
      seen.add(JSON.stringify(now));
      await fits(`with client ${client}`);
    }
    assert.equal(seen.size, Math.min(3, clients.length), "two clients look the same");
    if (seenCards.size) assert.ok(seenCards.size > 1, "two clients have the same samples");
    await page.selectOption("#client", "");
    assert.deepEqual(await live(page), before, "all clients do not come back");
  }
}

const browser = await chromium.launch({
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking", "--disable-component-update"],
});
try {
  for (const path of pages) {
    for (const width of [1280, 390]) {
      for (const scheme of ["light", "dark"]) await check(browser, path, width, scheme);
    }
    console.log(`${path}: fine at 1280 and 390, light and dark`);
  }
} finally {
  await browser.close();
}
