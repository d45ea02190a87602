"""Generated names: two short words such as `amber-fox`, which people can tell apart and agents can copy."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count

from engrambus.core import Randomness

# decision 43: any two words of a list differ by at least two edits, so a name with one typing error is still near one
# name only. None of them looks like a secret, and none is a word of this product.
_ADJECTIVES = """
    agile alert amber ample arctic astral autumn azure balmy beige blue bold brave breezy bright brisk broad calm
    candid cheery clear clever cloudy cool coral cosmic cosy crisp curly cyan daily dapper daring deep deft dewy
    eager epic even exact fair fancy fast firm fluffy foggy fond frank free fresh frosty gentle glad glossy golden
    grand green handy happy hazel honest humble icy indigo ivory jade jolly keen kind lavish light lilac lime
    lively loyal lucid lucky lunar maroon mauve mellow merry mighty mild mint misty modest mossy navy neat nimble
    noble oaken ochre olive open orange peach pearl pink placid plain plum polar polite prime proud purple quick
    quiet rapid rare robust rose round ruby rugged russet rustic rusty sage secure sepia serene sharp shiny silent
    silky silver simple sleek smart smooth snowy soft solid sonic speedy steady sturdy subtle sunny sweet swift
    tawny teal tidy true upbeat urban velvet violet vivid warm wise witty woody zany zesty
"""
_NOUNS = """
    alpaca anchovy ant aphid apple apricot aspen aurora badger bamboo barley basalt basil bat beacon bear bee
    beech beetle birch bison bittern bobcat bongo bonobo bottle bridge brook buffalo bunting button cabin camel
    canary candle canoe canyon caracal caribou carp carpet cashew castle catfish cedar chapel cheetah cherry
    cicada civet cliff clover cobalt cobra cod comet compass condor conifer copper corgi coyote crab crane creek
    cricket crocus crow curlew dahlia daisy dingo dolphin dove duck dugong dune eagle eel egret elk emu ermine
    falcon fennel fern ferret fiddle fig finch firefly fjord flax forest fox frog galaxy gannet garden garlic
    gazelle gecko gerbil gibbon ginger ginkgo giraffe glacier goose gopher granite grape gravel grebe grouse gull
    guppy haddock halibut hammer hamster hare harrier harvest hawk heather helmet heron herring hippo holly
    horizon hornet horse hyena ibex ibis iguana impala island ivy jackal jackdaw jacket jaguar jasmine jay juniper
    kelp kestrel kite kiwi koala krill kudu lagoon lake lamprey lantern lapwing larch lark lemming lemon lemur
    lentil lettuce linden lion lizard llama lobster lotus lumber lupin lynx macaw magnet magpie mallard mammoth
    manatee mango mantis maple marble marlin marmot marten meadow meerkat meteor millet mimosa minnow mirror
    mitten mole moth mouse muskrat narwhal nebula needle nettle newt nutmeg oak oasis oboe ocelot octopus onion
    opal opossum orbit orca orchid oregano oriole osprey ostrich otter owl oyster panda panther papaya paprika
    parrot parsley peacock peanut pebble pecan pelican pencil penguin pepper perch petunia piano pigeon pike
    pillar piranha planet pocket polecat pony poplar poppy potato prairie puffin pulsar puma pumpkin puzzle quail
    quartz quasar quince quiver rabbit radish rainbow raven reef rhino river robin saddle salmon sardine satchel
    sawfish scallop seal sesame sextant shark sheep shrimp skylark sloth snail sonnet sparrow spider spinach spoon
    spruce squid stoat stork sumac summit sunfish swan tablet tamarin tapir teak teapot temple thimble thistle
    thrush thyme tiger timber toad topaz toucan trout truffle trumpet tulip tuna tunnel turnip turtle valley
    vanilla village violin wagon wallaby walnut walrus warbler whale wheat whippet willow window wolf wombat wren
    yacht yam yarrow yew zebra zephyr zinnia
"""
ADJECTIVES = tuple(_ADJECTIVES.split())
NOUNS = tuple(_NOUNS.split())

ATTEMPTS = 16
"""Random names that are tried at each length before a word is added."""
MAX_SUGGESTIONS = 3


def generate_name(is_used: Callable[[str], bool], randomness: Randomness) -> str:
    """Return a name that is not used yet: two words; three, then a number, if the names with fewer are mostly used."""
    for adjectives in (1, 2):
        for _ in range(ATTEMPTS):
            words = [_choose(ADJECTIVES, randomness) for _ in range(adjectives)]
            name = "-".join([*words, _choose(NOUNS, randomness)])
            if not is_used(name):
                return name
    return next(numbered for number in count(2) if not is_used(numbered := f"{name}-{number}"))


def similar_names(name: str, names: Iterable[str]) -> list[str]:
    """Return the names that someone who wrote `name` may have meant, the most similar first."""
    # Loaded late: only a refusal needs it.
    from difflib import get_close_matches

    return get_close_matches(name, sorted(set(names)), n=MAX_SUGGESTIONS, cutoff=0.7)


def _choose(words: tuple[str, ...], randomness: Randomness) -> str:
    return words[int.from_bytes(randomness(4), "big") % len(words)]
