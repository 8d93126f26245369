// Names instead of numbers for modules: the numbers depend on the folder of the checkout, and the build would not be
// the same everywhere.
module.exports = { optimization: { moduleIds: 'named' } };
