Se crio en un pequeño pueblo pesquero y se formó como carpintero antes de convertirse en un célebre escultor cuyas obras se expusieron en varias capitales europeas.
Tras la guerra regresó a Lisboa, donde trabajó como traductor y más tarde como redactor de un periódico de izquierdas.
El joven actor fue elogiado por la crítica por su contenida interpretación y ese mismo año fue nominado a dos premios nacionales de cine, aunque nunca había tomado una sola clase de interpretación antes de ser contratado.
Padre soltero de tres hijos, trabaja de noche como enfermero en el hospital local mientras estudia Derecho durante el día.
Al ser el hijo mayor de un rico comerciante, se esperaba que él se hiciera cargo del negocio familiar, pero prefirió estudiar astronomía y acabó desheredado por su padre.
Nombrado para el Tribunal Supremo en 1998, fue el juez más joven de su historia y un firme defensor de la libertad de prensa.
Es un exnadador profesional que representó a su país en tres Juegos Olímpicos y ahora trabaja como entrenador en Melbourne, donde vive con su hermana y colabora como bombero voluntario.
En 1911 fue detenido por repartir octavillas y condenado a dos meses de prisión.
La película sigue a un hombre solitario que, cansado de su trabajo como contador, decide cruzar el desierto en bicicleta.
Considerado uno de los mejores pianistas de su generación, fue también un profesor generoso y un compositor de gran talento.
El rey tenía solo diecinueve años cuando fue coronado, y durante los primeros años estuvo aconsejado por un tío ambicioso.
Perdió su escaño en las siguientes elecciones y se retiró de la política, decepcionado y muy endeudado, para hacerse apicultor.
Siendo un joven cirujano, se hizo conocido por su trabajo con víctimas de quemaduras y más tarde fundó una clínica en Nairobi, de la que fue director hasta que lo asesinaron durante la guerra civil.
El héroe de la novela es un tímido bibliotecario que descubre que es el último descendiente de una familia de hechiceros.
Se incorporó al equipo como portero en 2006 y fue elegido capitán por sus compañeros apenas cuatro meses después.
Ciego de nacimiento, aprendió a tocar el arpa a los seis años y llegó a ser un respetado profesor de música en Dublín.
Durante su segundo mandato como alcalde fue acusado de aceptar sobornos, pero quedó absuelto de todos los cargos.
Es conocido sobre todo como autor de una serie de novelas policíacas sobre un detective jubilado que vive en una isla remota.
El hermano menor de la princesa fue criado por campesinos y no supo hasta la edad adulta que él era de sangre real.
Fue el primer ingeniero en la historia de la empresa en ser ascendido a director, cargo que ocupó hasta su muerte.
Convencido de que lo seguían, el espía quemó sus papeles y huyó al otro lado de la frontera disfrazado de pastor.
Estudió filosofía en Viena, donde fue alumno de varios miembros del Círculo y amigo del poeta Kessler.
El empresario fue secuestrado cuando volvía a casa de la oficina y liberado ileso once días después.
A diferencia de su predecesor, el nuevo canciller era un reformador prudente y rara vez hablaba con la prensa sin notas.
Comenzó su carrera como presentador del tiempo en la televisión regional antes de ser contratado como corresponsal político en Bruselas.
El monje pasó cuarenta años en la abadía, donde era el encargado del jardín de hierbas, y, aunque estaba casi sordo, los novicios lo buscaban como confidente.
En la tercera temporada se pone celoso de su nuevo vecino, un dentista encantador, e intenta que desalojen a sus propios padres.
Apasionado montañero desde su juventud, fue hallado muerto en la cara norte, a solo unos metros de la cumbre.
Había sido un leal partidario del emperador, pero fue desterrado de la corte tras la fallida campaña de 1604.
El informe lo describe como un alumno ambicioso pero solitario que faltaba a menudo y que había sido tratado por depresión.
Se casó en 1952 y, tras quedar viudo, adoptó a los gemelos que había dejado su difunto primo.
Aunque se había formado como bailarín, durante muchos años se ganó la vida como conductor de taxi en Chicago.
El conde era un entusiasta coleccionista de mariposas y legó toda su colección al museo de historia natural.
Actualmente es el único científico de la región invitado al congreso, donde hablará de los arrecifes de coral.
Acusado de traición, fue llevado ante un tribunal militar, declarado culpable sin un solo testigo y fusilado a la mañana siguiente, pero medio siglo después fue rehabilitado y celebrado como mártir.
Sus amigos lo recuerdan como un compañero honesto, terco y divertido que nunca olvidaba un cumpleaños y nunca llegaba a tiempo.
Tras su lesión, el gimnasta se vio obligado a dejar la competición y pasó a ser fisioterapeuta de la selección nacional.
Era hijo de un panadero y sobrino de un obispo, y fue educado en casa por un preceptor.
El programa está presentado por un antiguo político que en su día fue él mismo concursante y perdió en la primera ronda.
Afirmaba ser descendiente del profeta y fue venerado como un santo por sus seguidores hasta que desapareció en 1877.
El paciente, un hombre de treinta años, fue ingresado con fiebre alta y dijo al médico que había regresado hacía poco de Perú.
Fue cofundador de la cooperativa y ejerció como tesorero durante una década, sin cobrar y casi inadvertido para los demás agricultores.
En el escenario parece seguro de sí mismo e incluso arrogante, pero en las entrevistas se ha descrito como un perfeccionista ansioso.
Se mudó a Toronto con sus abuelos y trabajó de camarero en un club de jazz.
En 1943 se ofreció como voluntario para el puesto de operador de radio, fue lanzado en paracaídas sobre territorio ocupado y capturado a la semana de llegar.
Sigue siendo el hombre más alto registrado en el condado y fue enterrado en un ataúd fabricado por su hermano.
El dios suele ser representado como un jinete armado y rodeado de lobos, con una antorcha en la mano izquierda.
Esperaba ser oficial, pero fue rechazado por su mala vista y se hizo cocinero.
Con un dominio de siete idiomas, fue contratado como intérprete en las conversaciones de paz y más tarde escribió sus memorias sobre ellas.
El presidente del club anunció que estaba dispuesto a dimitir si los socios ya no estaban contentos con él.
Es el menor de cinco hermanos, todos ellos músicos profesionales, y el único que ha estudiado en el extranjero.
Los críticos calificaron el último disco del cantante como su obra más personal, y él fue invitado a interpretarlo en la ópera.
Ya debilitado por la enfermedad, dictó los últimos capítulos a su secretaria y murió antes de que se publicara el libro.
El inspector es un padre divorciado, adicto a los analgésicos, que sospecha que uno de sus propios compañeros es el asesino.
Fue embajador en Japón de 1987 a 1991 y posteriormente fue nombrado asesor del ministro de Asuntos Exteriores.
Según la leyenda local, el fantasma de un joven criado aún recorre los pasillos en busca de su llave de plata perdida.
Ganó la medalla de plata en Múnich como ciclista y, sorprendentemente, la de bronce como patinador de velocidad cuatro años más tarde.
No fue un escritor prolífico, pero sí un crítico influyente, temido por los editores y admirado por los poetas más jóvenes.
El abuelo de la novia asistió a la ceremonia en silla de ruedas porque había resultado gravemente herido en un accidente de tráfico.
En este puesto supervisó la construcción de tres presas y fue criticado por los vecinos que habían sido expulsados de sus casas.
Tiene licencia de piloto, es un buceador experimentado y realizó él mismo todas sus escenas de riesgo en la película.
Cuando fue elegido obispo, varias parroquias protestaron y se vio obligado a viajar con un guardaespaldas durante más de un año.
El niño había sido abandonado a las puertas del convento y recibió el nombre del santo en cuya fiesta fue encontrado.
Entre los demás presos era conocido como un hábil falsificador capaz de imitar cualquier firma tras verla una sola vez.
Como opositor, estaba sometido a una vigilancia constante, y en 1974 fue expulsado de la universidad.
Aprendió a pintar por sí mismo mientras se recuperaba de la tuberculosis y vendió su primer lienzo a un médico del sanatorio.
El duque se puso furioso al enterarse de que no había sido consultado y despidió al arquitecto en el acto.
Es profesor emérito de Química y académico extranjero de la institución, para la que fue elegido en 2003.
Fue atacado por un tiburón a los trece años, pero volvió a hacer surf apenas un mes después de salir del hospital.
Por ser zurdo, el aprendiz era golpeado por el maestro, y a los quince años se escapó para unirse a un circo.
El fiscal sostuvo que él sabía lo del veneno, mientras que la defensa lo presentó como un criado ingenuo y obediente.
Fue uno de los pocos reporteros que permanecieron en la ciudad sitiada, y resultó herido dos veces por la metralla, pero se negó a ser evacuado hasta que el último niño herido estuvo a salvo.
Una vez por semana, el director del colegio invitaba a los alumnos a su piso, donde les leía historias de fantasmas a la luz de las velas.
Se convirtió en ciudadano de Canadá en 1969, tras haber llegado allí doce años antes como un refugiado sin dinero.
El ganador, un trabajador de correos jubilado, dijo que se quedó tan sorprendido que tuvo que comprobar el boleto cuatro veces.
Fue criado en el catolicismo, se convirtió al budismo a los treinta y tantos y en la vejez se definía como un ateo risueño.
El brujo cae engañado por los huérfanos, que lo encierran en su propio sótano y liberan a los animales encantados.
Desde 2015 es el director titular de la orquesta de la ciudad, que ya había dirigido en varias ocasiones como invitado.
Era tan querido entre los obreros que, cuando fue despedido, toda la fábrica se declaró en huelga.
Heredero de la fortuna de una tía, era económicamente independiente y pudo dedicarse por completo a su pasión, la fotografía.
El agente de policía que descubrió el cadáver declaró que estaba solo en el edificio cuando oyó los disparos.
Fue nombrado pintor de la corte en 1782, pero lo despidieron cuando su retrato del rey disgustó al cardenal.
En el segundo episodio es mordido por un vampiro y, preocupado por su familia, se esconde en un molino abandonado.
Trabajó brevemente como peluquero y socorrista antes de ser descubierto en la playa por un agente de modelos.
Su biógrafo sugiere que el emperador nunca estuvo realmente interesado en el poder y que habría sido más feliz como jardinero.
Estuvo entre los pasajeros rescatados del ferri que se hundía y fue atendido por hipotermia junto con sus dos hijos.
Opositor de la pena de muerte durante toda su vida, defendió como abogado a más de doscientos clientes y nunca cobró a una familia pobre.
Interpreta a un banquero despiadado que en Nochevieja es visitado por los fantasmas de las personas a las que arruinó.
El padrastro, que había vivido décadas en el extranjero, afirmó que no había sido informado de la enfermedad del chico.
Batió un récord mundial como corredor de velocidad en 1983, pero más tarde fue descalificado tras dar positivo por esteroides.
Cansado de la vida urbana, compró una casa de campo en ruinas en la Toscana y se convirtió en un exitoso viticultor.
A menudo ha sido comparado con su primo, más famoso, aunque él era el pensador más original de los dos con diferencia.
El director de la agencia, biólogo de formación, advirtió al Gobierno, pero fue ignorado y finalmente sustituido por un banquero.
Asociado con su hermano, abrió en Marsella una panadería que pronto se convirtió en el lugar de reunión de los escritores exiliados.
De niño era tímido, pero ya en la escuela sus profesores lo consideraban un matemático brillante.
El hijo del sheriff se enamora de un forajido y se ve dividido entre su deber hacia la familia y su anhelo de libertad.
Fue homenajeado a título póstumo como héroe de guerra, y frente a la estación se inauguró una estatua suya de bronce.
No era fumador ni bebedor, y atribuía su larga vida a los paseos diarios y a haber permanecido soltero.
Fue sorprendido vendiendo cuadros robados a un marchante de Ginebra y confesó que había sido el cabecilla de la banda.
Se creía que el sacerdote podía predecir el futuro, y era consultado antes de cada batalla importante.
Es fundador y director general de una empresa de software que emplea a más de trescientas personas en Tallin; antes fue profesor, conductor de tranvía y, brevemente, monologuista cómico.
Fue trasladado a una prisión del norte, donde lo mantuvieron aislado de los demás reclusos durante nueve años.
Al preguntársele por qué nunca había escrito una secuela, el novelista respondió que era demasiado perezoso y demasiado feliz para hacerlo.
Estuvo prometido durante tres años, pero rompió el compromiso para hacerse misionero en Madagascar.
El camarero se negó a atender al senador, fue despedido esa misma noche y se hizo famoso de un día para otro al contar su historia.
Fue el único superviviente de la expedición, pues lo habían dejado en el campamento base por una fractura de tobillo, y durante años fue acusado falsamente de haber abandonado a sus compañeros.
A pesar de ser el favorito, fue eliminado en cuartos de final por un jugador desconocido diez años menor que él.
En sus cartas se queja de que sus parientes lo tratan como a un extraño y de sentirse viejo, feo e inútil.
Fue el primer oficial negro al mando del regimiento, y sus soldados lo consideraban estricto pero justo.
El estudio siguió a un grupo de niños nacidos prematuros y examinados por los mismos médicos cada cinco años.
Se doctoró en 1961 y después fue invitado a Princeton como investigador visitante, donde se quedó para siempre.
El casero es un viudo amargado y desconfiado que espía a sus inquilinos por un agujero en la pared.
Estaba inscrito en el censo electoral de dos condados, un error del que culpó a un asistente descuidado de su oficina.
Su madre quería que fuera farmacéutico, pero estaba fascinado por las máquinas y se hizo aprendiz de relojero.
Entre 1920 y 1924 vivió como ermitaño en las montañas, visitado únicamente por un pastor que le llevaba pan.
El portavoz del sindicato dijo que estaba preocupado por los planes y dispuesto a dirigir él mismo las negociaciones.
Empezó como ayudante de un fotógrafo de moda y pronto estuvo muy solicitado como estilista de revistas en Milán.
Lo consideraban demasiado viejo para el papel, pero el director insistió en contratarlo porque era un cómico de gran talento.
El abad gozaba de respeto como teólogo erudito y se carteaba con varios reyes, a los que no dudaba en reprender.
Hijo ilegítimo de un obispo, fue ocultado en un monasterio y no fue reconocido legalmente hasta los treinta años.
Más tarde admitió que estaba borracho durante la emisión y pidió disculpas a los espectadores y a su copresentador.
Fue licenciado del ejército por invalidez y pasó sus últimos años como portero en la escuela de un pueblo.
El barón era un excelente tirador y un elegante esquiador, pero era odiado por la servidumbre a causa de su mal genio.
Trabaja como ilustrador por cuenta propia y comparte estudio con un escultor, con quien ha expuesto en Praga y Kioto.
Según la policía, el sospechoso iba armado cuando entró en el banco y amenazó al cajero con un cuchillo; fue detenido dos horas después, dormido en una furgoneta robada cerca del puerto.
Se lo recuerda como un incansable defensor del agua limpia y como el primer alcalde de la ciudad en ser reelegido cuatro veces.
Al principio los aldeanos desconfiaban de él, pero pronto confiaron en el nuevo doctor, que era invitado a todas las bodas.
Trabaja como productor desde 2010 y fue elegido revelación del año.
El zar fue despertado por los disparos y huyó por un túnel secreto, acompañado solo por su médico y un mozo de cuadra.
Al principio fue contratado como obrero sin cualificación en el astillero, pero asistió a clases nocturnas y se hizo soldador.
Se retiró como el atleta más condecorado de su nación y fue recibido en el aeropuerto por miles de aficionados entusiasmados.
El tío de los dos huérfanos es nombrado su tutor, pero solo está interesado en el dinero que han heredado.
Frustrado por la falta de fondos, emigró a Suecia, donde es hoy un destacado experto en energía eólica y un conferenciante muy solicitado, conocido por ser directo, divertido e impaciente.
Fue bautizado con un nombre falso, porque sus padres temían que fuera perseguido por ser hijo de herejes.
En Estados Unidos está considerado un pionero de los títeres modernos, pero en su tierra natal está casi olvidado.
El vendedor insistió en que había sido engañado por el fabricante y en que no era responsable de los calefactores defectuosos.
Es un crítico franco del sector y ha sido demandado tres veces por empresas citadas en sus artículos.
Fue el último hablante de la lengua y, en sus últimos años, fue visitado con regularidad por lingüistas con grabadoras.
El mecánico que reparó el globo fue elogiado por la tripulación y viajó como pasajero en el siguiente vuelo.
Estaba tan delgado tras el asedio que su propio hijo no lo reconoció al principio.
De adolescente era un prometedor jugador de ajedrez, pero dejó los torneos para hacerse veterinario.
El anfitrión de la velada era un encantador señor de unos sesenta años que se presentó como un cantante de ópera retirado.
Fue distinguido por la Corona por sus servicios a la ciencia y, aunque ya estaba gravemente enfermo, viajó a Londres para recibir el honor en persona.
El nuevo azafato estaba aterrorizado de volar y confesó al comandante que había mentido en su solicitud.
Se formó como matemático, trabajó de programador en las primeras misiones espaciales y ahora es un popular autor de libros infantiles.
El príncipe se niega a casarse con el hombre que han elegido para él y escapa de noche, vestido de mendigo.
Trabajó codo con codo con Harlow, que más tarde lo describió como el observador más cuidadoso y el peor cocinero del barco.
La víctima, un limpiador del museo, fue hallada inconsciente por un guardia y no recordaba quién lo había atacado.
Fue un estrecho asesor de dos presidentes y el artífice de la reforma fiscal, pero siguió siendo desconocido para el público.
Orgulloso de sus orígenes humildes, el senador solía contar a los periodistas que había sido carnicero.
