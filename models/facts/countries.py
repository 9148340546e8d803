"""Countries with their demonyms and other names: as texts write them, and compared as one."""

import re

# One line a country: its name, the demonyms that encyclopedia leads use for persons, films and
# songs, and after a semicolon what else means it when answers are compared. Countries with a minus
# are only compared, never looked for in a text; demonyms with a plus are only looked for.
_TABLE = """
Afghanistan: Afghan
Albania: Albanian
Algeria: Algerian
-Angola:; angolan
Argentina: Argentine, Argentinian, +Argentinean
Armenia: Armenian
Australia: Australian
Austria: Austrian
Azerbaijan: Azerbaijani
Bangladesh: Bangladeshi
Belarus: Belarusian
Belgium: Belgian
Bolivia: Bolivian
Bosnia and Herzegovina: Bosnian
Botswana: +Botswanan
Brazil: Brazilian
Bulgaria: Bulgarian
Burkina Faso: +Burkinabé
Cambodia: Cambodian
Cameroon: Cameroonian
Canada: Canadian
Chile: Chilean
China: Chinese; people's republic of china, prc
Colombia: Colombian
Costa Rica: Costa Rican
Croatia: Croatian; croat
Cuba: Cuban
Cyprus: Cypriot
Czech Republic: Czech; czechia
Czechoslovakia: +Czechoslovak, +Czechoslovakian
Denmark: Danish
Dominican Republic:; dominican
East Germany: +East German
Ecuador: Ecuadorian
Egypt: Egyptian
England: English
Estonia: Estonian
Ethiopia: Ethiopian
Fiji: +Fijian
Finland: Finnish
France: French
Georgia: Georgian
Germany: German
Ghana: Ghanaian
Greece: Greek
Guatemala: Guatemalan
Haiti: Haitian
-Honduras:; honduran
Hong Kong:; hongkonger
Hungary: Hungarian
Iceland: Icelandic
India: Indian; republic of india, british india
Indonesia: Indonesian
Iran: Iranian; persian
Iraq: Iraqi
Ireland: Irish; republic of ireland
Israel: Israeli
Italy: Italian
Ivory Coast: Ivorian; côte d'ivoire
Jamaica: Jamaican
Japan: Japanese
Jordan: Jordanian
Kazakhstan: Kazakhstani; kazakh
Kenya: Kenyan
-Kuwait:; kuwaiti
Kyrgyzstan: +Kyrgyz
-Laos:; laotian
Latvia: Latvian
Lebanon: Lebanese
Libya: Libyan
Lithuania: Lithuanian
Luxembourg: Luxembourgish; luxembourgian
Madagascar: Malagasy
Malaysia: Malaysian
Mali: Malian
Malta: Maltese
Mexico: Mexican
Moldova: Moldovan
Mongolia: Mongolian
Montenegro: Montenegrin
Morocco: Moroccan
-Mozambique:; mozambican
Myanmar: Burmese; burma
Nepal: Nepalese, Nepali
Netherlands: Dutch; the netherlands, holland
New Zealand: New Zealand; new zealander
Nicaragua: +Nicaraguan
Nigeria: Nigerian
North Korea: North Korean
North Macedonia: Macedonian; macedonia
-Northern Ireland:; northern irish
Norway: Norwegian
Pakistan: Pakistani
Palestine: Palestinian
Panama: Panamanian
Paraguay: Paraguayan
Peru: Peruvian
Philippines: Filipino, Philippine; filipina, the philippines
Poland: Polish
Portugal: Portuguese
Puerto Rico: Puerto Rican
-Qatar:; qatari
Romania: Romanian
Russia: Russian; russian federation
-Rwanda:; rwandan
Saudi Arabia: Saudi; saudi arabian
Scotland: Scottish
Senegal: Senegalese
Serbia: Serbian
Singapore: Singaporean
Slovakia: Slovak; slovakian
Slovenia: Slovene, Slovenian
-Somalia:; somali
South Africa: South African
South Korea: South Korean; republic of korea
Soviet Union: Soviet; ussr, u.s.s.r.
Spain: Spanish
Sri Lanka: Sri Lankan
Sudan: Sudanese
Sweden: Swedish
Switzerland: Swiss
Syria: Syrian
Taiwan: Taiwanese
Tanzania: Tanzanian
Thailand: Thai
-Trinidad and Tobago:; trinidadian
Tunisia: Tunisian
Turkey: Turkish; republic of turkey
Uganda: Ugandan
Ukraine: Ukrainian
-United Arab Emirates:; emirati, uae
United Kingdom: British; uk, u.k., great britain, britain, the united kingdom
United States: American; us, u.s., usa, u.s.a., united states of america, america, the united states
Uruguay: Uruguayan
Uzbekistan: Uzbek; uzbekistani
Venezuela: Venezuelan
Vietnam: Vietnamese
Wales: Welsh
West Germany: +West German
Yugoslavia: Yugoslav, Yugoslavian
Zambia: Zambian
Zimbabwe: Zimbabwean
"""
_FURTHER_NAMES = ("United States of America", "USA", "U.S.", "UK")


def _looked_for() -> tuple[list[str], list[str]]:
    """Return the countries and the demonyms that stand in texts."""
    countries: list[str] = []
    demonyms: list[str] = []
    for line in _TABLE.strip().splitlines():
        country, _, words = line.partition(":")
        if not country.startswith("-"):
            countries.append(country)
            demonyms += filter(None, (w.strip(" +") for w in words.partition(";")[0].split(",")))
    return [*countries, *_FURTHER_NAMES], demonyms


def _compared() -> dict[str, str]:
    """Return the country of each demonym and further name, all in lower case."""
    table: dict[str, str] = {}
    for line in _TABLE.lower().strip().splitlines():
        country, _, words = line.partition(":")
        names = (word.strip() for word in words.replace(";", ",").split(","))
        table |= {name: country.lstrip("-") for name in names if name and name[0] != "+"}
    return table


def _alternatives(words: list[str]) -> str:
    """Return a regular expression for any of the words, the longest first."""
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


_COUNTRY_OF = _compared()
_COUNTRIES, _DEMONYMS = map(_alternatives, _looked_for())
COUNTRY_PATTERN = rf"(?:{_COUNTRIES})(?!\w)"
DEMONYM_PATTERN = rf"(?:{_DEMONYMS})(?!\w)"


def canonical_country(text: str) -> str:
    """Lower-case country that a name or demonym stands for; unknown text only normalised."""
    normalised = " ".join(text.lower().split())
    return _COUNTRY_OF.get(normalised, normalised)
